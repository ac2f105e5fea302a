"""AsyncAPI documents and security options."""

import ssl

import pytest
from faststream.exceptions import SetupError
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256
from faststream.specification import AsyncAPI
from pydantic import BaseModel

from gantrymq.client import Credentials, TlsClient
from gantrymq_faststream import GantryBroker, GantryRouter
from gantrymq_faststream.security import connect_options


class Order(BaseModel):
    id: int


def billing():
    broker = GantryBroker("10.0.0.1:9876;10.0.0.2:9876", description="the shop's")
    router = GantryRouter("eu_")

    @router.subscriber("Orders", "Refunds", group="billing")
    @broker.publisher("Invoices", description="to be paid")
    async def bill(order: Order) -> str:
        """Bills an order."""
        return ""

    @broker.subscriber("Hidden", group="hidden", include_in_schema=False)
    async def hidden(order: Order): ...

    broker.include_router(router)
    broker.kept = (bill, hidden)
    return broker


@pytest.mark.parametrize("version", ["2.6.0", "3.0.0"])
def test_topics_are_channels_and_name_servers_servers(version):
    document = AsyncAPI(billing(), title="Shop", schema_version=version).to_specification().to_jsonable()
    servers = document["servers"].values()
    assert {server["protocol"] for server in servers} == {"rocketmq"}
    assert {server.get("url", server.get("host")).removeprefix("rocketmq://") for server in servers} == {
        "10.0.0.1:9876",
        "10.0.0.2:9876",
    }
    channels = document["channels"]
    assert sorted(channels) == ["Invoices:Publisher", "eu_Orders:Bill", "eu_Refunds:Bill"]
    assert "Order" in document["components"]["schemas"]
    text = str(document)
    assert "Bills an order." in text and "to be paid" in text and "Hidden" not in text


def test_tls_is_asked_for_by_base_security():
    assert connect_options(None) == {}
    assert connect_options(BaseSecurity()) == {}
    assert connect_options(BaseSecurity(use_ssl=True)) == {"tls": TlsClient()}
    context = ssl.create_default_context()
    assert connect_options(BaseSecurity(ssl_context=context))["tls"].context() is context


def test_an_account_is_told_by_sasl_plaintext():
    account = Credentials("shop", "secret")
    assert connect_options(SASLPlaintext("shop", "secret")) == {"credentials": account}
    assert connect_options(SASLPlaintext("shop", "secret", use_ssl=True)) == {
        "credentials": account,
        "tls": TlsClient(),
    }


def test_what_rocketmq_does_not_have_is_refused():
    with pytest.raises(SetupError, match="does not support SASLScram256"):
        GantryBroker(security=SASLScram256("a", "b"))
