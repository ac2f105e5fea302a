"""The commands. The hook imports none of them; the command line imports a command when it is used."""
