"""Access control by plain_acl.yml, the accounts of RocketMQ 4.4 to 5.3.2.

Other distributions use `gantrymq_access_plain.accounts` to read such files.
"""
