"""SQL92 subscriptions for GantryMQ: RocketMQ's expressions over message properties."""

from gantrymq_filter_sql92.expression import CompiledExpression, compiled, parse
from gantrymq_filter_sql92.filter import Sql92Filter

__all__ = ["CompiledExpression", "Sql92Filter", "compiled", "parse"]
