"""JSON files in ``config/`` of a store: safe reading and writing, and the content of three files."""

from gantrymq.formats.config import CONSUMER_OFFSETS as CONSUMER_OFFSETS
from gantrymq.formats.config import GROUPS as GROUPS
from gantrymq.formats.config import LIGHT_CONSUMER_OFFSETS as LIGHT_CONSUMER_OFFSETS
from gantrymq.formats.config import RESERVE as RESERVE
from gantrymq.formats.config import TOPICS as TOPICS
from gantrymq.formats.config import TopicsFile as TopicsFile
from gantrymq.formats.config import backup_of as backup_of
from gantrymq.formats.config import broken_of as broken_of
from gantrymq.formats.config import load as load
from gantrymq.formats.config import pretty as pretty
from gantrymq.formats.config import read_topics_file as read_topics_file
from gantrymq.formats.config import save as save
from gantrymq.formats.config.consumer_offsets import ConsumerOffsetsFile as ConsumerOffsetsFile
from gantrymq.formats.config.tables import as_number as as_number
from gantrymq.formats.config.tables import data_version as data_version
from gantrymq.formats.config.tables import in_order as in_order
from gantrymq.formats.config.tables import table as table
from gantrymq.formats.config.tables import unknown as unknown
