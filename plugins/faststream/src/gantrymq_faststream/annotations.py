"""Annotated types that a handler can use for its arguments."""

from typing import Annotated

from faststream._internal.context import Context

from gantrymq.client import Client as _Client
from gantrymq.client import Consumer as _Consumer
from gantrymq_faststream.broker import GantryBroker as _GantryBroker
from gantrymq_faststream.message import GantryBatchMessage as _GantryBatchMessage
from gantrymq_faststream.message import GantryMessage as _GantryMessage

GantryMessage = Annotated[_GantryMessage, Context("message")]
GantryBatchMessage = Annotated[_GantryBatchMessage, Context("message")]
GantryBroker = Annotated[_GantryBroker, Context("broker")]
Client = Annotated[_Client, Context("broker._connection")]
Consumer = Annotated[_Consumer, Context("handler_.consumer")]
