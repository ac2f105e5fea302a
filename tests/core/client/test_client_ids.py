import pytest

from gantrymq.client.calls.client_ids import client_id, instance_name, local_address, unique_ids


def test_address_is_the_one_that_leads_to_a_name_server(simulate, peer):
    async def work(world):
        server = await peer(world, "ns", 9876).start()
        try:
            return await local_address(world, ("gone:1", server.address))
        finally:
            await server.stop()

    assert simulate(work) == "127.0.0.1"


def test_address_without_any_name_server_is_loopback(simulate):
    async def work(world):
        return await local_address(world, ("gone:1",))

    assert simulate(work) == "127.0.0.1"


def test_instance_name_is_made_unless_given(simulate):
    async def work(world):
        made = {instance_name(world) for _ in range(3)}
        assert len(made) == 3
        assert all(name.startswith("1#") for name in made)
        assert instance_name(world, "mine") == "mine"

    simulate(work)


def test_client_id_has_the_unit_where_there_is_one():
    assert client_id("10.0.0.1", "i") == "10.0.0.1@i"
    assert client_id("10.0.0.1", "i", "u") == "10.0.0.1@i@u"


@pytest.mark.parametrize(("address", "head", "length"), [("10.1.2.3", "0A010203", 32), ("fe80::1%eth0", "FE80", 56)])
def test_message_ids_begin_with_the_address(simulate, address, head, length):
    async def work(world):
        return unique_ids(world, address).next()

    made = simulate(work)
    assert made.startswith(head)
    assert len(made) == length
