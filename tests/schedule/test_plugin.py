from gantrymq.plugins import load_plugins
from gantrymq_schedule import plugin


def loaded():
    return load_plugins(extra=[("schedule", plugin)], installed=False)


def test_the_plugin_registers_interceptor_service_and_settings():
    plugins = loaded()
    service, progress = plugins.services
    assert service.name == "schedule"
    assert (progress.name, progress.schedule) == ("schedule_progress", service)
    assert plugins.interceptors == (service.interceptor,)
    assert [setting.key for setting in plugins.config][:1] == ["flushDelayOffsetInterval"]


def test_every_load_has_parts_of_its_own():
    assert loaded().services[0] is not loaded().services[0]
