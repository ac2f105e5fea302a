"""Loading plugins that code hands in: every way in which one can be broken."""

from types import ModuleType

import click
import pytest

from gantrymq.commands.imported import ImportedCommand
from gantrymq.config import Setting
from gantrymq.errors import PluginConflict, PluginError
from gantrymq.hooks import hookimpl
from gantrymq.model.averagely import averagely
from gantrymq.plugins import Plugins, PluginState, load_plugins
from gantrymq.plugins.loaded import ProtocolEntry
from gantrymq.plugins.registries import KINDS, FactoryRegistry


def plugin(name="example", **functions):
    """A module with *functions* as hooks."""
    module = ModuleType(name)
    for hook, function in functions.items():
        function.__name__ = function.__qualname__ = hook
        function.__module__ = name
        setattr(module, hook, hookimpl(function))
    return module


def stores(*names):
    def register(registry):
        for name in names:
            registry.add(name, lambda context: None)

    return register


def load(*plugins, **options):
    named = [(module.__name__, module) for module in plugins]
    return load_plugins(extra=named, installed=False, **options)


def problem(*plugins, **options):
    with pytest.raises(PluginError) as caught:
        load(*plugins, **options)
    return str(caught.value)


class Named:
    def __init__(self, name="x", order=0):
        self.name, self.order = name, order

    def __call__(self, message):
        return message


def test_without_plugins_everything_is_empty():
    assert load() == Plugins()


def test_every_kind_is_collected_under_its_name():
    service, gate, handler, early, late = Named("s"), Named("g"), Named(), Named(order=1), Named(order=9)
    name_server = Named("ns")
    command = click.Command("mine")
    setting = Setting("mineSize", "number", 1, "Size of mine.")
    factory = Named()

    def plain_factory():
        return factory

    def interceptors(registry):
        registry.add(late)
        registry.add(early)

    found = load(
        plugin(
            gantry_register_config=lambda registry: registry.add(setting),
            gantry_register_stores=lambda registry: registry.add("st", factory),
            gantry_register_dispatchers=lambda registry: registry.add("di", factory),
            gantry_register_filters=lambda registry: registry.add("fi", plain_factory),
            gantry_register_allocations=lambda registry: registry.add("al", factory),
            gantry_register_transactions=lambda registry: registry.add("tr", plain_factory),
            gantry_register_interceptors=interceptors,
            gantry_register_gates=lambda registry: registry.add(gate),
            gantry_register_handlers=lambda registry: registry.add(4711, handler),
            gantry_register_protocols=lambda registry: registry.add("pr", plain_factory, first=(b"PR",), alpn=("pr",)),
            gantry_register_services=lambda registry: registry.add(service),
            gantry_register_name_servers=lambda registry: registry.add(name_server),
            gantry_register_commands=lambda registry: registry.add(command),
        )
    )
    assert found.config == (setting,)
    assert found.stores == {"st": factory}
    assert found.dispatchers == {"di": factory}
    assert found.filters == {"fi": plain_factory}
    assert found.allocations == {"AVG": averagely, "al": factory}
    assert found.transactions == {"tr": plain_factory}
    assert found.interceptors == (early, late)
    assert found.gates == (gate,)
    assert found.handlers == {4711: handler}
    assert found.protocols == {"pr": ProtocolEntry(plain_factory, (b"PR",), ("pr",))}
    assert found.services == (service,)
    assert found.name_servers == {"ns": name_server}
    assert found.commands == {"mine": command}
    (info,) = found.infos
    assert info.state is PluginState.LOADED
    assert info.registers == (
        "setting mineSize",
        "store st",
        "dispatcher di",
        "filter fi",
        "allocation al",
        "transaction service tr",
        "interceptor with order 9",
        "interceptor with order 1",
        "gate g",
        "handler for request code 4711",
        "listener protocol pr",
        "service s",
        "name server ns",
        "command mine",
    )


def test_each_hook_is_called_once():
    calls = []
    load(plugin(gantry_register_stores=lambda registry: calls.append("stores")), plugin("other"))
    assert calls == ["stores"]


def test_only_the_hooks_asked_for_are_called():
    def fail(registry):
        raise AssertionError

    found = load(
        plugin(gantry_register_stores=fail, gantry_register_commands=lambda registry: registry.add(click.Command("c"))),
        only_hooks=("gantry_register_commands",),
    )
    assert list(found.commands) == ["c"]


def test_a_command_may_be_a_place_from_which_it_is_imported():
    place = ("greet", "no_such_module:greet", "Say hello.")
    found = load(plugin(gantry_register_commands=lambda registry: registry.add_imported(*place)))
    assert found.commands == {"greet": ImportedCommand(*place[1:])}
    assert found.infos[0].registers == ("command greet",)


@pytest.mark.parametrize("place", [("", "module:greet", "x"), ("greet", "module", "x")])
def test_a_command_without_a_name_or_a_place_is_refused(place):
    said = problem(plugin(gantry_register_commands=lambda registry: registry.add_imported(*place)))
    assert "plugin example registers a command with name" in said


@pytest.mark.parametrize("strict", [True, False])
def test_a_misspelt_hook_is_a_problem_with_the_right_name(strict):
    module = plugin(gantry_register_filter=lambda registry: None)
    found = problem(module) if strict else load(module, strict=False).problems[0]
    assert "plugin example" in found
    assert "there is no hook gantry_register_filter, did you mean gantry_register_filters?" in found


def test_an_argument_that_the_hook_does_not_have_is_a_problem():
    def register(registry, more):
        pass

    assert "does not fit the hooks" in problem(plugin(gantry_register_stores=register))


def test_a_function_without_the_marker_is_a_problem():
    module = plugin()

    def gantry_register_stores(registry):
        pass

    gantry_register_stores.__module__ = module.__name__
    module.gantry_register_stores = gantry_register_stores
    assert "gantry_register_stores without @hookimpl" in problem(module)


def test_a_hook_that_raises_is_a_problem_naming_plugin_hook_and_reason():
    def register(registry):
        raise RuntimeError("no luck")

    found = problem(plugin(gantry_register_stores=register))
    assert found.startswith("plugin example failed in gantry_register_stores: RuntimeError: no luck;")


class WithoutArguments:
    """A factory that does not take the context."""


FACTORIES = {
    "stores": ("store", "one argument of type StoreContext"),
    "dispatchers": ("dispatcher", "one argument of type StoreContext"),
    "filters": ("filter", "no argument"),
    "allocations": ("allocation", "one argument of type dict"),
    "transactions": ("transaction service", "no argument"),
    "authorizers": ("authorizer", "one argument of type AuthorizerContext"),
}


@pytest.mark.parametrize("word", FACTORIES)
def test_a_factory_with_other_arguments_is_refused_with_what_it_is_called_with(word):
    title, arguments = FACTORIES[word]
    wrong = WithoutArguments if arguments.startswith("one") else lambda context: context
    found = problem(plugin(**{f"gantry_register_{word}": lambda registry: registry.add("mine", wrong)}))
    expected = (
        f"plugin example: the factory of the {title} mine is called with {arguments}, and {wrong.__name__} does not"
    )
    assert found.startswith(expected)
    right = (lambda given: given) if arguments.startswith("one") else lambda: None
    load(plugin(**{f"gantry_register_{word}": lambda registry: registry.add("mine", right)}))


def test_every_hook_with_factories_is_in_the_table_above():
    kinds = [kind.word for kind in KINDS if isinstance(kind.registry(kind.title), FactoryRegistry)]
    assert kinds == list(FACTORIES)


def test_two_claims_on_a_name_conflict_and_both_plugins_are_named():
    one, two = (
        plugin("one", gantry_register_stores=stores("same")),
        plugin("two", gantry_register_stores=stores("same")),
    )
    with pytest.raises(PluginConflict, match="the plugins one and two both register store same; uninstall one of them"):
        load(one, two)


def test_the_allocation_strategy_of_core_exists_without_a_plugin_and_no_plugin_replaces_it():
    assert list(load().allocations) == ["AVG"]
    with pytest.raises(PluginConflict, match="plugin example registers the allocation AVG, which belongs to gantrymq"):
        load(plugin(gantry_register_allocations=lambda registry: registry.add("AVG", averagely)))


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("Grpc", {}, "with the name 'Grpc'; it must begin with a lower-case letter"),
        ("a+tls", {}, "with the name 'a+tls'; it must begin"),
        ("remoting", {}, "the listener protocol remoting, which belongs to gantrymq"),
        ("a", {"factory": None}, "the factory of the listener protocol a is None"),
        ("a", {"first": ()}, "the listener protocol a needs first, a tuple of the bytes with which its clients begin"),
        ("a", {"first": (b"A", b"")}, "needs first"),
        ("a", {"first": b"A"}, "needs first"),
        ("a", {"alpn": "h2"}, "alpn of the listener protocol a is 'h2', not a tuple of names"),
        ("a", {"alpn": ("",)}, "not a tuple of names"),
    ],
)
def test_a_listener_protocol_that_cannot_be_used_is_refused(name, given, words):
    given = {"factory": Named, "first": (b"A",), **given}
    found = problem(plugin(gantry_register_protocols=lambda registry: registry.add(name, **given)))
    assert words in found
    assert found.startswith("plugin example")


def test_two_interceptors_of_one_order_conflict():
    modules = [
        plugin(n, gantry_register_interceptors=lambda registry: registry.add(Named(order=5))) for n in ("one", "two")
    ]
    with pytest.raises(PluginConflict, match="one and two both register interceptor with order 5"):
        load(*modules)


def test_one_plugin_claiming_a_name_twice_conflicts():
    with pytest.raises(PluginConflict, match="plugin example registers twice store same"):
        load(plugin(gantry_register_stores=stores("same", "same")))


def test_a_setting_of_core_cannot_be_declared_again():
    core = Setting("listenPort", "number", 1, "Port.")
    with pytest.raises(PluginConflict, match="example declares the setting listenPort, which belongs to gantrymq"):
        load(plugin(gantry_register_config=lambda registry: registry.add(core)), reserved=[core])


def test_two_plugins_of_one_name_conflict_and_the_first_stays():
    first, second = (
        plugin("same", gantry_register_stores=stores("a")),
        plugin("same", gantry_register_stores=stores("b")),
    )
    assert "two plugins are called same" in problem(first, second)
    assert list(load(first, second, strict=False).stores) == ["a"]


def test_lenient_loading_leaves_out_all_of_a_broken_plugin():
    def filters(registry):
        registry.add("F", Named())
        raise RuntimeError("half way")

    broken = plugin("broken", gantry_register_stores=stores("lost"), gantry_register_filters=filters)
    found = load(broken, plugin("good", gantry_register_stores=stores("kept")), strict=False)
    assert list(found.stores) == ["kept"]
    assert not found.filters
    assert [(info.name, info.state) for info in found.infos] == [
        ("broken", PluginState.BROKEN),
        ("good", PluginState.LOADED),
    ]
    assert found.infos[0].problem == found.problems[0]


def test_strict_loading_says_how_many_more_problems_there_are():
    modules = [plugin(n, gantry_register_nothing=lambda registry: None) for n in ("one", "two", "three")]
    found = problem(*modules)
    assert "plugin one" in found
    assert found.endswith("(2 more: see gantrymq plugins)")


def test_a_store_is_picked_by_name():
    found = load(plugin(gantry_register_stores=stores("a", "b")))
    assert found.store("b") is found.stores["b"]
    with pytest.raises(PluginError, match=r"store=c: .* \(there is a, b\)"):
        found.store("c")


def test_without_a_store_plugin_the_sentence_says_which_command_installs_one():
    with pytest.raises(PluginError, match="install one with: pip install gantrymq-storage-mmap .in a clone"):
        load().store("mmap")
