"""Results: tables that are derived from the rows of a target, in the transaction that makes the rows visible.

A publish, a rollback and its undo each know two relations: `added`, the rows that the transaction makes visible, and
`removed`, the rows that it takes away. Every result is computed from these two, so each way in which rows can change
keeps each result right.
"""
