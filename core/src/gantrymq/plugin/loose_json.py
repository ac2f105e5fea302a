"""JSON as RocketMQ reads and writes it, and checks of the members of a body."""

from gantrymq.loose_json import Entries as Entries
from gantrymq.loose_json import Items as Items
from gantrymq.loose_json import RawJson as RawJson
from gantrymq.loose_json import ReadBudget as ReadBudget
from gantrymq.loose_json import dumps as dumps
from gantrymq.loose_json import dumps_standard as dumps_standard
from gantrymq.loose_json import int_keys as int_keys
from gantrymq.loose_json import loads as loads
from gantrymq.loose_json import loads_strict as loads_strict
from gantrymq.model.json_members import COUNT as COUNT
from gantrymq.model.json_members import COUNT64 as COUNT64
from gantrymq.model.json_members import INT32 as INT32
from gantrymq.model.json_members import INT64 as INT64
from gantrymq.model.json_members import flag_in as flag_in
from gantrymq.model.json_members import number_in as number_in
from gantrymq.model.json_members import object_in as object_in
from gantrymq.model.json_members import objects_in as objects_in
from gantrymq.model.json_members import quote_value as quote_value
from gantrymq.model.json_members import text_in as text_in
from gantrymq.model.json_members import texts_in as texts_in
from gantrymq.model.json_members import whole_number as whole_number
