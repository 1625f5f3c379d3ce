"""The same chunks, read by both readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.quality.gx import BatchExpectation

if TYPE_CHECKING:
    from great_expectations.execution_engine import ExecutionEngine


class ExpectSameWhenReadAgain(BatchExpectation):  # type: ignore[misc]
    """A share of the chunks, chosen at random, has the same records when the other reader reads them.

    The stage step reads them, because Spark runs then; `chunks` are the chunks with both counts and fingerprints. Equal
    fingerprints prove that reading is idempotent: the load took from the log what the log holds.
    """

    share: float
    # Of each chunk: its range, and `records`, `hash`, `again_records`, `again_hash`.
    chunks: tuple[dict[str, Any], ...] = ()

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],  # noqa: ARG002
        runtime_configuration: dict[str, Any] | None = None,  # noqa: ARG002
        execution_engine: ExecutionEngine | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        by_partition: dict[int, list[list[int]]] = {}
        for each in self.chunks:
            if (each["records"], each["hash"]) != (each["again_records"], each["again_hash"]):
                by_partition.setdefault(each["partition"], []).append([each["from_offset"], each["until_offset"]])
        different = sum(map(len, by_partition.values()))
        observed = {"chunks": len(self.chunks), "different": different}
        partitions = [
            {"partition": partition, "success": False, "observed": {"different": len(ranges), "chunks": ranges[:10]}}
            for partition, ranges in by_partition.items()
        ]
        details = {"observed": observed, "partitions": partitions}
        return {
            "success": not different,
            "result": {"observed_value": f"{different} of {len(self.chunks)}", "details": details},
        }
