"""Examples of checks: each expectation with arguments that are valid for a column of some type."""

from __future__ import annotations

from typing import Any

BOUNDS: list[dict[str, Any]] = [
    {"min_value": 0, "max_value": 10},
    {"min_value": "0.5", "strict_min": True},
    {"max_value": "2026-01-31"},
    {"min_value": "2026-01-31T10:00:00", "max_value": "2026-02-01 00:00"},
    {"max_value": "2026-01-31T00:00:00Z"},
    {"min_value": "2026-01-31 00:00:00+01:00"},
]
COUNTS: list[dict[str, Any]] = [{"min_value": 0, "max_value": 10}, {"min_value": "1"}, {"max_value": 1.0}]
SHARES: list[dict[str, Any]] = [{"min_value": 0, "max_value": 0.5}, {"max_value": 1, "strict_max": "yes"}]
SETS: list[dict[str, Any]] = [
    {"value_set": [1, 2.5, None]},
    {"value_set": ["abc", "x"]},
    {"value_set": [True]},
    {"value_set": ["2026-01-31"]},
    {"value_set": []},
]
REGEXES = [r"^[a-z]+$", r"\d{2,4}(-\d+)*", r"(?i)abc", r"[[:alpha:]]"]

# name: the arguments beside the column
ONE_COLUMN: dict[str, list[dict[str, Any]]] = {
    "expect_column_distinct_values_to_be_in_set": SETS,
    "expect_column_distinct_values_to_contain_set": SETS,
    "expect_column_distinct_values_to_equal_set": SETS,
    "expect_column_kl_divergence_to_be_less_than": [
        {"partition_object": {"values": [1, 2], "weights": [0.5, 0.5]}, "threshold": 0.1, "tail_weight_holdout": 0.1},
        {"partition_object": {"bins": [0, 1, 2], "weights": [0.5, 0.5]}, "internal_weight_holdout": 0.1},
    ],
    "expect_column_max_to_be_between": [{}, *BOUNDS],
    "expect_column_min_to_be_between": [{}, *BOUNDS],
    "expect_column_median_to_be_between": [{}, *BOUNDS],
    "expect_column_mean_to_be_between": [{}, *BOUNDS],
    "expect_column_stdev_to_be_between": [{}, *BOUNDS],
    "expect_column_sum_to_be_between": [{}, *BOUNDS],
    "expect_column_values_to_be_between": BOUNDS,
    "expect_column_most_common_value_to_be_in_set": [{**each, "ties_okay": True} for each in SETS],
    "expect_column_proportion_of_non_null_values_to_be_between": SHARES,
    "expect_column_proportion_of_unique_values_to_be_between": SHARES,
    "expect_column_quantile_values_to_be_between": [
        {"quantile_ranges": {"quantiles": [0.1, 0.9], "value_ranges": [[0, 1], [None, 10]]}},
    ],
    "expect_column_to_exist": [{}, {"column_index": 3}],
    "expect_column_type_to_be": [{"type_": "BIGINT"}],
    "expect_column_unique_value_count_to_be_between": COUNTS,
    "expect_column_value_lengths_to_be_between": COUNTS,
    "expect_column_value_lengths_to_equal": [{"value": 3}],
    "expect_column_value_z_scores_to_be_less_than": [{"threshold": 3, "double_sided": True}],
    "expect_column_values_to_be_in_set": SETS,
    "expect_column_values_to_not_be_in_set": SETS,
    "expect_column_values_to_be_in_type_list": [{"type_list": ["BIGINT", "TEXT"]}, {"type_list": None}],
    "expect_column_values_to_be_null": [{"mostly": 0.5}],
    "expect_column_values_to_not_be_null": [
        {},
        {"row_condition": 'col("id") > 0', "condition_parser": "great_expectations"},
        {"row_condition": 'col("note") == "note of 3"', "condition_parser": "great_expectations__experimental__"},
        {"row_condition": 'col("note").notNull()', "condition_parser": "great_expectations"},
    ],
    "expect_column_values_to_be_of_type": [{"type_": "BIGINT"}],
    "expect_column_values_to_be_unique": [{"mostly": 0.9}],
    "expect_column_values_to_match_like_pattern": [{"like_pattern": "a%"}, {"like_pattern": "100!%", "escape": "!"}],
    "expect_column_values_to_not_match_like_pattern": [{"like_pattern": "_x\\%"}],
    "expect_column_values_to_match_like_pattern_list": [{"like_pattern_list": ["a%", "b%"], "match_on": "all"}],
    "expect_column_values_to_not_match_like_pattern_list": [{"like_pattern_list": ["a%"]}],
    "expect_column_values_to_match_regex": [{}, *({"regex": regex} for regex in REGEXES)],
    "expect_column_values_to_not_match_regex": [{"regex": regex} for regex in REGEXES],
    "expect_column_values_to_match_regex_list": [{"regex_list": REGEXES, "match_on": "any"}],
    "expect_column_values_to_not_match_regex_list": [{"regex_list": REGEXES}],
    "expect_column_values_to_not_be_outliers": [{}, {"method": "std", "multiplier": 3}],
}
PAIRS: dict[str, list[dict[str, Any]]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": [{}, {"or_equal": True, "ignore_row_if": "neither"}],
    "expect_column_pair_values_to_be_equal": [{"mostly": 0.5}],
    "expect_column_pair_values_to_be_in_set": [
        {"value_pairs_set": [[1, 2.5], [None, 1]]},
        {"value_pairs_set": [["abc", "x"]]},
        {"value_pairs_set": [[True, False]]},
    ],
}
SEVERAL: dict[str, list[dict[str, Any]]] = {
    "expect_compound_columns_to_be_unique": [{"ignore_row_if": "never"}],
    "expect_multicolumn_sum_to_equal": [{"sum_total": 3}],
    "expect_multicolumn_values_to_be_equal": [{}],
    "expect_select_column_values_to_be_unique_within_record": [{"ignore_row_if": "any_value_is_missing"}],
}
WHOLE_TABLE: dict[str, list[dict[str, Any]]] = {
    "expect_query_results_to_match_comparison": [
        {"base_query": "select 1", "comparison_data_source_name": "staged", "comparison_query": "select 1"}
    ],
    "expect_table_column_count_to_be_between": [{}, *COUNTS],
    "expect_table_column_count_to_equal": [{"value": 3}],
    "expect_table_columns_to_match_ordered_list": [{}, {"column_list": ["id"]}],
    "expect_table_columns_to_match_set": [{"column_set": ["id", "note"], "exact_match": False}],
    "expect_table_row_count_to_be_between": [{}, *COUNTS],
    "expect_table_row_count_to_equal": [{"value": 300}],
    "unexpected_rows_expectation": [
        {"unexpected_rows_query": "select * from {batch} where id < 0"},
        {"unexpected_rows_query": """select * from {batch} where '{{"a":1}}'::json is null and note like ':x%'"""},
        {"unexpected_rows_query": "select note ~ '^a{{2}}$' from {batch} where id < 0;"},
    ],
}
# It names a table in the schema of the attempt's table, where no user has a table.
NOT_RUN = {"expect_table_row_count_to_equal_other_table": [{"other_table_name": "other"}]}


def list_checks(column: str, other: str) -> list[dict[str, Any]]:
    """All checks of columns, for two columns of one type."""
    return [
        {"expect": expect, **columns, **arguments}
        for examples, columns in (
            (ONE_COLUMN, {"column": column}),
            (PAIRS, {"column_A": column, "column_B": other}),
            (SEVERAL, {"column_list": [column, other]}),
        )
        for expect, cases in examples.items()
        for arguments in cases
    ]


def list_checks_of_tables() -> list[dict[str, Any]]:
    """All checks of the whole table."""
    return [{"expect": expect, **arguments} for expect, cases in WHOLE_TABLE.items() for arguments in cases]
