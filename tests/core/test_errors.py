"""Errors keep class, text and attributes when a pool of processes, or a copy, recreates them."""

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor

import pytest

import gantrymq
from gantrymq.client.sending.results import SendFailed
from gantrymq.errors import BrokerRefused, CallTimeout, GantryError

REFUSAL = BrokerRefused(14, "the store is full", "127.0.0.1:10911")
ARGUMENTS = {
    "AccessRefused": (16, "no permission"),
    "AccessDenied": ("no permission", "127.0.0.1:10911"),
    "BrokerRefused": (14, "the store is full", "127.0.0.1:10911"),
    "FilterRefused": (23, "the expression ends too early", "127.0.0.1:10911"),
    "NotABroker": (105, "127.0.0.1:9876", "not supported"),
    "NotANameServer": (105, "127.0.0.1:10911", "not supported"),
    "PullForbidden": (3, "the topic is not readable"),
    "ReconsumeLater": (2,),
    "RequestNotServed": (351, "127.0.0.1:10911", "not supported"),
    "RequestRefused": (2004, "the transaction is unknown"),
    "SendFailed": ("Orders", ["broker-a"], REFUSAL, 3.0),
    "SendNotConnected": ("Orders", ["broker-a"], None, 3.0),
    "SendTimedOut": ("Orders", ["broker-a", "broker-b"], CallTimeout("no answer"), 3.0),
    "ServerFault": (),
}
ABSTRACT = {"RequestRefusedAsUnknown"}


def public_exceptions():
    """Every public exception that core defines, by name."""
    modules = [gantrymq]
    for found in pkgutil.walk_packages(gantrymq.__path__, "gantrymq."):
        try:
            modules.append(importlib.import_module(found.name))
        except ImportError:  # needs an optional library
            continue
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind)
        and issubclass(kind, BaseException)
        and kind.__module__ == module.__name__
        and not name.startswith("_")
    }


EVERY = public_exceptions()


def made(name):
    error = EVERY[name](*ARGUMENTS.get(name, (f"a {name} at broker-a",)))
    error.address = "127.0.0.1:10911"  # set after the creation, as connections do
    return error


@pytest.mark.parametrize("name", sorted(EVERY.keys() - ABSTRACT))
@pytest.mark.parametrize(
    "again",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_every_public_exception_is_recreated_with_class_text_and_attributes(name, again):
    error = made(name)
    same = again(error)
    assert type(same) is type(error)
    assert (str(same), same.args) == (str(error), error.args)
    assert vars(same) == vars(error)
    if isinstance(error, GantryError):
        assert (same.response_code, same.retriable, same.without_advice) == (
            error.response_code,
            error.retriable,
            error.without_advice,
        )


def test_the_arguments_are_for_exceptions_that_exist():
    assert set(ARGUMENTS) < set(EVERY)
    assert {"NoRoute", "ClusterUnclear", "ConfigError", "BrokersKilled"} < set(EVERY)


def send_fails():
    raise SendFailed("Orders", ["broker-a"], REFUSAL, 3.0)


@pytest.mark.slow
def test_an_error_of_the_client_leaves_a_process_of_a_pool():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        failed = pool.submit(send_fails).exception(timeout=60)
    assert isinstance(failed, SendFailed)
    assert (failed.brokers, failed.response_code) == (("broker-a",), 14)
