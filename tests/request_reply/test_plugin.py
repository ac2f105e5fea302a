"""Registrations of the distribution gantrymq-request-reply, separate for each broker."""

from gantrymq_request_reply import plugin


class Registry(list):
    def add(self, *what):
        self.append(what)


def loaded():
    settings, handlers, services = Registry(), Registry(), Registry()
    plugin.gantry_register_config(settings)
    plugin.gantry_register_handlers(handlers)
    plugin.gantry_register_services(services)
    return settings, handlers, services


def test_registers_two_handlers_a_service_and_a_setting():
    settings, handlers, services = loaded()
    assert [(each.key, each.default, each.runtime) for (each,) in settings] == [("storeReplyMessageEnable", True, True)]
    assert sorted(code for code, _ in handlers) == [324, 325]
    assert [each.name for (each,) in services] == ["request_reply"]


def test_each_loading_has_a_service_of_its_own():
    (_, first, ((one,),)), (_, _, ((other,),)) = loaded(), loaded()
    assert one is not other and first[0][1].__self__ is one
