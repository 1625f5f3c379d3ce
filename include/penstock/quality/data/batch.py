"""The rows of an expectation: a table of PostgreSQL or a Spark data frame, in SQL that both understand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from psycopg import sql

from penstock.target.postgres.lookup_index import lookup_term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from sqlalchemy.engine import Connection as SqlConnection

# How many rows a scan reads in the time of one descent in the index of one leaf: 0.7 us against 0.36 us a row.
LOOKUP_COST = 2
# Equal values of these types are equal as text too. Of jsonb that is not so: 1.0 and 1.00 are equal.
TEXT_TYPES = ("text", "character", "bytea")
MOMENT_TYPES = ("date", "timestamp without time zone", "timestamp with time zone")


class DataBatch(ABC):
    """The rows of one batch. The columns `_partition`, `_offset` and `_timestamp` place a row in the log."""

    table: str  # as SQL
    # PostgreSQL computes a common table expression once if it says so; Spark has no such word.
    materialized: ClassVar[str]

    @abstractmethod
    def ask(self, statement: str) -> Sequence[dict[str, Any]]:
        """Run one statement."""

    @abstractmethod
    def name(self, column: str) -> str:
        """Quote the name of a column."""

    @abstractmethod
    def scan(self, columns: Sequence[str]) -> str:
        """Some columns of all rows as a relation, for a query that puts the rows in another order."""

    @abstractmethod
    def is_moment(self, column: str) -> bool:
        """Whether a column holds dates or timestamps."""

    @abstractmethod
    def seconds(self, later: str, earlier: str) -> str:
        """The seconds between two moments."""

    @abstractmethod
    def moment(self, iso: str) -> str:
        """A moment as a literal."""

    @abstractmethod
    def history(self, table: str) -> str:
        """Another table by the name `schema.table`, quoted."""

    @abstractmethod
    def sortable(self, column: str, relation: str) -> str:
        """A term that is equal for equal values of a column, and that costs little to sort."""

    @abstractmethod
    def equals(self, columns: Sequence[str], left: str, right: str) -> str:
        """A condition: two relations have the same values in some columns, in a form that finds the index."""

    @abstractmethod
    def match(self, table: str, history: str, columns: Sequence[str], condition: str) -> str:
        """The join of the batch `s` with the rows of a history `h` that meet a condition, for some columns of it.

        `history` is a relation over the table `table`.
        """

    @abstractmethod
    def newest(self, keys: str, columns: Sequence[str], value: str, history: str, condition: str) -> str:
        """The query that adds to the `columns` of `keys` the greatest value that a history `h` has, as `reached`."""


@dataclass
class PostgresBatch(DataBatch):
    """A table of PostgreSQL, on a connection of SQLAlchemy."""

    connection: SqlConnection
    identifier: sql.Identifier
    materialized: ClassVar[str] = "materialized"
    _types: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = self.identifier.as_string(None)

    def ask(self, statement: str) -> Sequence[dict[str, Any]]:
        """Run one statement. psycopg reads % as a placeholder, so a % of a name is doubled."""
        rows = self.connection.exec_driver_sql(statement.replace("%", "%%")).mappings()
        return [dict(row) for row in rows]

    def name(self, column: str) -> str:
        """Quote the name of a column."""
        return sql.Identifier(column).as_string(None)

    def scan(self, columns: Sequence[str]) -> str:
        """Read the table in its own order, because a sort costs less than an index that names a page for each row.

        With the index of a check across loads the planner reads the rows in the order of their keys: 2.4M pages for 4M
        rows, where the table has 53,000. OFFSET keeps the planner from that.
        """
        listed = ", ".join(map(self.name, dict.fromkeys(columns)))
        return f"(select {listed} from {self.table} offset 0) scanned"

    def is_moment(self, column: str) -> bool:
        """Whether a column holds dates or timestamps."""
        return self._type(column) in MOMENT_TYPES

    def _type(self, column: str) -> str:
        if not self._types:
            found = self.ask(
                "select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute"
                f" where attrelid = {self._literal(self.table)}::regclass and attnum > 0"
            )
            self._types |= {row["name"]: row["type"] for row in found}
        return self._types[column]

    def seconds(self, later: str, earlier: str) -> str:
        """The seconds between two moments."""
        return f"extract(epoch from ({later})::timestamp - ({earlier})::timestamp)"

    def moment(self, iso: str) -> str:
        """A moment as a literal."""
        return f"timestamptz {self._literal(iso)}"

    def history(self, table: str) -> str:
        """Another table by the name `schema.table`, quoted."""
        return sql.Identifier(*table.split(".")).as_string(None)

    def sortable(self, column: str, relation: str) -> str:
        """The hash of a text, because the server may compare texts by the rules of a language; other values."""
        qualified = f"{relation}.{self.name(column)}"
        type_ = self._type(column)
        return lookup_term(qualified, type_) if type_.startswith(TEXT_TYPES) else qualified

    def equals(self, columns: Sequence[str], left: str, right: str) -> str:
        """A condition: the terms that the index holds, and the columns themselves where a term is a hash."""
        terms = []
        for column in columns:
            quoted = self.name(column)
            term = [lookup_term(f"{relation}.{quoted}", self._type(column)) for relation in (left, right)]
            terms.append(" = ".join(term))
            if "(" in term[0]:
                terms.append(f"{left}.{quoted} = {right}.{quoted}")
        return " and ".join(terms)

    def match(self, table: str, history: str, columns: Sequence[str], condition: str) -> str:
        """Index lookups for each row, or one scan of the history where that costs less.

        The planner takes each page of an index for read from disk: it scanned 100M rows (36 s) for a batch of 100,000
        rows, whose lookups take 2 s. So the numbers of rows decide.
        """
        batch_table, history_table = self._literal(self.table), self._literal(self.history(table))
        sizes = self.ask(
            f"select (select reltuples from pg_class where oid = {batch_table}::regclass) as rows,"
            " sum(c.reltuples) as history_rows, count(*) as leaves"
            f" from pg_partition_tree({history_table}::regclass) t join pg_class c on c.oid = t.relid"
            " where t.isleaf"
        )[0]
        if LOOKUP_COST * sizes["rows"] * sizes["leaves"] > (sizes["history_rows"] or 0):
            return f"{self.table} s join {history} h on {condition}"
        listed = ", ".join(f"h.{column}" for column in columns)
        # OFFSET keeps the planner from making a join of the subquery.
        return f"{self.table} s cross join lateral (select {listed} from {history} h where {condition} offset 0) h"

    def _literal(self, text: str) -> str:
        return sql.Literal(text).as_string(None)

    def newest(self, keys: str, columns: Sequence[str], value: str, history: str, condition: str) -> str:
        """One index lookup for each key, because a join would read all rows that a key has in the history."""
        return (
            f"select {', '.join(f'keys.{column}' for column in columns)}, known.reached from {keys} keys"
            f" left join lateral (select h.{value} as reached from {history} h where {condition}"
            f" and h.{value} is not null order by h.{value} desc limit 1) known on true"
        )


@dataclass
class SparkBatch(DataBatch):
    """A Spark data frame, as a view of its session."""

    frame: DataFrame
    materialized: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.table = f"penstock_batch_{uuid4().hex}"
        self.frame.createOrReplaceTempView(self.table)

    def close(self) -> None:
        """Drop the view."""
        self.frame.sparkSession.catalog.dropTempView(self.table)

    def ask(self, statement: str) -> Sequence[dict[str, Any]]:
        """Run one statement."""
        return [row.asDict() for row in self.frame.sparkSession.sql(statement).collect()]

    def name(self, column: str) -> str:
        """Quote the name of a column."""
        return "`" + column.replace("`", "``") + "`"

    def scan(self, columns: Sequence[str]) -> str:  # noqa: ARG002
        """The view: Spark reads the needed columns only."""
        return self.table

    def is_moment(self, column: str) -> bool:
        """Whether a column holds dates or timestamps."""
        return self.frame.schema[column].dataType.typeName() in ("date", "timestamp", "timestamp_ntz")

    def seconds(self, later: str, earlier: str) -> str:
        """The seconds between two moments."""
        micros = [f"unix_micros(cast({moment} as timestamp))" for moment in (later, earlier)]
        return f"({micros[0]} - {micros[1]}) / 1e6"

    def moment(self, iso: str) -> str:
        """A moment as a literal. ISO 8601 has no quotes."""
        return f"timestamp '{iso}'"

    def history(self, table: str) -> str:
        """Another table or view by its name, quoted."""
        return ".".join(self.name(part) for part in table.split("."))

    def sortable(self, column: str, relation: str) -> str:
        """The column itself."""
        return f"{relation}.{self.name(column)}"

    def equals(self, columns: Sequence[str], left: str, right: str) -> str:
        """A condition: two relations have the same values in some columns."""
        return " and ".join(f"{left}.{self.name(column)} = {right}.{self.name(column)}" for column in columns)

    def match(self, table: str, history: str, columns: Sequence[str], condition: str) -> str:  # noqa: ARG002
        """A join, because Spark has no index."""
        return f"{self.table} s join {history} h on {condition}"

    def newest(self, keys: str, columns: Sequence[str], value: str, history: str, condition: str) -> str:
        """One join, because Spark has no index."""
        listed = ", ".join(f"keys.{column}" for column in columns)
        return (
            f"select {listed}, max(h.{value}) as reached from {keys} keys"
            f" left join {history} h on {condition} group by {listed}"
        )
