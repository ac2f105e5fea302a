"""The commands of ``gantrymq store``. The hook imports none of them; the command line does when one is used."""
