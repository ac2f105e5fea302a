"""The commands of ``gantrymq store``, imported by the command line on first use."""
