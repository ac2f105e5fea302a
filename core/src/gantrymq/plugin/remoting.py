"""Requests, responses, their codes and bodies, and the registration of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.remoting.answering_tasks import AnsweringTasks as AnsweringTasks
    from gantrymq.remoting.bodies import body_of as body_of
    from gantrymq.remoting.bodies import object_body_of as object_body_of
    from gantrymq.remoting.bodies import properties_of as properties_of
    from gantrymq.remoting.codes import FLAG_ONEWAY as FLAG_ONEWAY
    from gantrymq.remoting.codes import FLAG_RESPONSE as FLAG_RESPONSE
    from gantrymq.remoting.codes import SERIALIZE_JSON as SERIALIZE_JSON
    from gantrymq.remoting.codes import VERSION_3_0_11 as VERSION_3_0_11
    from gantrymq.remoting.codes import VERSION_4_9_4 as VERSION_4_9_4
    from gantrymq.remoting.codes import VERSION_5_0_0 as VERSION_5_0_0
    from gantrymq.remoting.codes import VERSION_5_3_1 as VERSION_5_3_1
    from gantrymq.remoting.codes import LanguageCode as LanguageCode
    from gantrymq.remoting.codes import RequestCode as RequestCode
    from gantrymq.remoting.codes import ResponseCode as ResponseCode
    from gantrymq.remoting.codes import request_name as request_name
    from gantrymq.remoting.command import Command as Command
    from gantrymq.remoting.command import encode as encode
    from gantrymq.remoting.command import encode_head as encode_head
    from gantrymq.remoting.command import request as request
    from gantrymq.remoting.command import response_to as response_to
    from gantrymq.remoting.connection import Connection as Connection
    from gantrymq.remoting.frame import MAX_FRAME_BYTES as MAX_FRAME_BYTES
    from gantrymq.remoting.frame import PREFIX as PREFIX
    from gantrymq.remoting.responses import SlicedResponses as SlicedResponses
    from gantrymq.remoting.responses import queue_texts as queue_texts
    from gantrymq.remoting.serving import AccessRule as AccessRule
    from gantrymq.remoting.serving import Handler as Handler
    from gantrymq.remoting.serving import HandlerOfMany as HandlerOfMany
    from gantrymq.remoting.serving import HandlerRegistry as HandlerRegistry
    from gantrymq.remoting.serving import ServerAccess as ServerAccess
    from gantrymq.remoting.serving import access_rule as access_rule
    from gantrymq.remoting.serving import copy_statement as copy_statement
    from gantrymq.remoting.serving import handlers_of as handlers_of
    from gantrymq.remoting.serving import in_operation as in_operation
    from gantrymq.remoting.serving import lazy_handlers as lazy_handlers
    from gantrymq.remoting.serving import serve_together as serve_together
    from gantrymq.remoting.serving import serves as serves
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.remoting.answering_tasks": "AnsweringTasks",
            "gantrymq.remoting.bodies": "body_of object_body_of properties_of",
            "gantrymq.remoting.codes": (
                "FLAG_ONEWAY FLAG_RESPONSE LanguageCode RequestCode ResponseCode SERIALIZE_JSON VERSION_3_0_11 "
                "VERSION_4_9_4 VERSION_5_0_0 VERSION_5_3_1 request_name"
            ),
            "gantrymq.remoting.command": "Command encode encode_head request response_to",
            "gantrymq.remoting.connection": "Connection",
            "gantrymq.remoting.frame": "MAX_FRAME_BYTES PREFIX",
            "gantrymq.remoting.responses": "SlicedResponses queue_texts",
            "gantrymq.remoting.serving": "AccessRule Handler HandlerOfMany HandlerRegistry ServerAccess access_rule "
            "copy_statement handlers_of in_operation lazy_handlers serve_together serves",
        },
    )
