"""Topics, groups, queues, subscriptions, addresses, message ids, permissions, and texts in several languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.model.access import Action as Action
    from gantrymq.model.access import Decision as Decision
    from gantrymq.model.access import Principal as Principal
    from gantrymq.model.access import Requirement as Requirement
    from gantrymq.model.access import Resource as Resource
    from gantrymq.model.access import ResourceType as ResourceType
    from gantrymq.model.access import group_resource as group_resource
    from gantrymq.model.access import is_signature as is_signature
    from gantrymq.model.access import requirements as requirements
    from gantrymq.model.access import topic_resource as topic_resource
    from gantrymq.model.averagely import Averagely as Averagely
    from gantrymq.model.averagely import averagely as averagely
    from gantrymq.model.data_version import DataVersion as DataVersion
    from gantrymq.model.group import POPS as POPS
    from gantrymq.model.group import GroupConfig as GroupConfig
    from gantrymq.model.group import lite_parent_of as lite_parent_of
    from gantrymq.model.group import pops as pops
    from gantrymq.model.hosts import format_address as format_address
    from gantrymq.model.hosts import host_text as host_text
    from gantrymq.model.hosts import is_host_name as is_host_name
    from gantrymq.model.hosts import is_ip_address as is_ip_address
    from gantrymq.model.hosts import is_loopback as is_loopback
    from gantrymq.model.hosts import pack_host as pack_host
    from gantrymq.model.hosts import parse_address as parse_address
    from gantrymq.model.hosts import split_addresses as split_addresses
    from gantrymq.model.ids import OffsetIds as OffsetIds
    from gantrymq.model.ids import is_offset_id as is_offset_id
    from gantrymq.model.ids import offset_id as offset_id
    from gantrymq.model.ids import parse_offset_id as parse_offset_id
    from gantrymq.model.java import string_hash as string_hash
    from gantrymq.model.light_queues import LIGHT_QUEUE_ID as LIGHT_QUEUE_ID
    from gantrymq.model.light_queues import LITE_PREFIX as LITE_PREFIX
    from gantrymq.model.light_queues import SEPARATOR as SEPARATOR
    from gantrymq.model.light_queues import check_lite_topic as check_lite_topic
    from gantrymq.model.light_queues import is_light as is_light
    from gantrymq.model.light_queues import is_lite_queue_of as is_lite_queue_of
    from gantrymq.model.light_queues import light_queue_offsets as light_queue_offsets
    from gantrymq.model.light_queues import lite_queue as lite_queue
    from gantrymq.model.light_queues import lite_topic_of as lite_topic_of
    from gantrymq.model.pushes import ClientAnswer as ClientAnswer
    from gantrymq.model.pushes import DirectConsumption as DirectConsumption
    from gantrymq.model.pushes import LiteUnsubscription as LiteUnsubscription
    from gantrymq.model.pushes import OffsetReset as OffsetReset
    from gantrymq.model.pushes import PushedReply as PushedReply
    from gantrymq.model.pushes import TransactionCheck as TransactionCheck
    from gantrymq.model.queue import MessageQueue as MessageQueue
    from gantrymq.model.queue import Queue as Queue
    from gantrymq.model.receipt import KINDS as KINDS
    from gantrymq.model.receipt import POP_ORDER_REVIVE_QUEUE as POP_ORDER_REVIVE_QUEUE
    from gantrymq.model.receipt import Receipt as Receipt
    from gantrymq.model.receipt import kind_of_topic as kind_of_topic
    from gantrymq.model.receipt import read_receipt as read_receipt
    from gantrymq.model.receipt import topic_of_kind as topic_of_kind
    from gantrymq.model.role import ACTING_STEP as ACTING_STEP
    from gantrymq.model.role import Role as Role
    from gantrymq.model.subscription import ALL as ALL
    from gantrymq.model.subscription import SQL92 as SQL92
    from gantrymq.model.subscription import TAG as TAG
    from gantrymq.model.subscription import Subscription as Subscription
    from gantrymq.model.texts import Shown as Shown
    from gantrymq.model.texts import Text as Text
    from gantrymq.model.texts import Value as Value
    from gantrymq.model.texts import form_of as form_of
    from gantrymq.model.texts import sentence_of as sentence_of
    from gantrymq.model.texts import texts_in as texts_in
    from gantrymq.model.topic import PERM_INHERIT as PERM_INHERIT
    from gantrymq.model.topic import PERM_READ as PERM_READ
    from gantrymq.model.topic import PERM_WRITE as PERM_WRITE
    from gantrymq.model.topic import SYS_FLAG_UNIT as SYS_FLAG_UNIT
    from gantrymq.model.topic import SYS_FLAG_UNIT_SUB as SYS_FLAG_UNIT_SUB
    from gantrymq.model.topic import TopicConfig as TopicConfig
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.model.access": (
                "Action Decision Principal Requirement Resource ResourceType group_resource is_signature requirements "
                "topic_resource"
            ),
            "gantrymq.model.averagely": "Averagely averagely",
            "gantrymq.model.data_version": "DataVersion",
            "gantrymq.model.group": "POPS GroupConfig lite_parent_of pops",
            "gantrymq.model.hosts": (
                "format_address host_text is_host_name is_ip_address is_loopback pack_host parse_address "
                "split_addresses"
            ),
            "gantrymq.model.ids": "OffsetIds is_offset_id offset_id parse_offset_id",
            "gantrymq.model.java": "string_hash",
            "gantrymq.model.light_queues": (
                "LIGHT_QUEUE_ID LITE_PREFIX SEPARATOR check_lite_topic is_light is_lite_queue_of "
                "light_queue_offsets lite_queue lite_topic_of"
            ),
            "gantrymq.model.pushes": (
                "ClientAnswer DirectConsumption LiteUnsubscription OffsetReset PushedReply TransactionCheck"
            ),
            "gantrymq.model.queue": "MessageQueue Queue",
            "gantrymq.model.receipt": ("KINDS POP_ORDER_REVIVE_QUEUE Receipt kind_of_topic read_receipt topic_of_kind"),
            "gantrymq.model.role": "ACTING_STEP Role",
            "gantrymq.model.subscription": "ALL SQL92 Subscription TAG",
            "gantrymq.model.texts": "Shown Text Value form_of sentence_of texts_in",
            "gantrymq.model.topic": "PERM_INHERIT PERM_READ PERM_WRITE SYS_FLAG_UNIT SYS_FLAG_UNIT_SUB TopicConfig",
        },
    )
