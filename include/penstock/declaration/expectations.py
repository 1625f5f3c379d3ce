"""The expectations that a check may name, with their arguments: those of Great Expectations that run on PostgreSQL.

This is a list, because great_expectations is too slow to import while Airflow parses the DAGs. A test compares the list
with the installed release and prints the difference.
"""

from __future__ import annotations

from penstock.declaration.columns import families_of

# name: (arguments that must be given, arguments that may be given)
EXPECTATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "expect_column_distinct_values_to_be_in_set": (
        ("column", "value_set"),
        (
            "row_condition",
            "condition_parser",
        ),
    ),
    "expect_column_distinct_values_to_contain_set": (
        ("column", "value_set"),
        (
            "row_condition",
            "condition_parser",
        ),
    ),
    "expect_column_distinct_values_to_equal_set": (
        ("column", "value_set"),
        (
            "row_condition",
            "condition_parser",
        ),
    ),
    "expect_column_kl_divergence_to_be_less_than": (
        ("column",),
        (
            "row_condition",
            "condition_parser",
            "partition_object",
            "threshold",
            "internal_weight_holdout",
            "tail_weight_holdout",
            "bucketize_data",
            "min_value",
            "max_value",
        ),
    ),
    "expect_column_max_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_mean_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_median_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_min_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_most_common_value_to_be_in_set": (
        ("column", "value_set"),
        ("row_condition", "condition_parser", "ties_okay"),
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": (
        ("column_A", "column_B"),
        ("mostly", "row_condition", "condition_parser", "or_equal", "ignore_row_if"),
    ),
    "expect_column_pair_values_to_be_equal": (
        ("column_A", "column_B"),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_column_pair_values_to_be_in_set": (
        ("column_A", "column_B", "value_pairs_set"),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_column_proportion_of_non_null_values_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_proportion_of_unique_values_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_quantile_values_to_be_between": (
        ("column", "quantile_ranges"),
        ("row_condition", "condition_parser", "allow_relative_error"),
    ),
    "expect_column_stdev_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_sum_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_to_exist": (("column",), ("column_index",)),
    "expect_column_type_to_be": (("column", "type_"), ()),
    "expect_column_unique_value_count_to_be_between": (
        ("column",),
        ("row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_value_lengths_to_be_between": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_value_lengths_to_equal": (("column", "value"), ("mostly", "row_condition", "condition_parser")),
    "expect_column_value_z_scores_to_be_less_than": (
        ("column", "threshold", "double_sided"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_column_values_to_be_between": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "min_value", "max_value", "strict_min", "strict_max"),
    ),
    "expect_column_values_to_be_in_set": (("column", "value_set"), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_be_in_type_list": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "type_list"),
    ),
    "expect_column_values_to_be_null": (("column",), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_be_of_type": (("column", "type_"), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_be_unique": (("column",), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_match_like_pattern": (
        ("column", "like_pattern"),
        ("mostly", "row_condition", "condition_parser", "escape"),
    ),
    "expect_column_values_to_match_like_pattern_list": (
        ("column", "like_pattern_list"),
        ("mostly", "row_condition", "condition_parser", "match_on", "escape"),
    ),
    "expect_column_values_to_match_regex": (("column",), ("mostly", "row_condition", "condition_parser", "regex")),
    "expect_column_values_to_match_regex_list": (
        ("column", "regex_list"),
        ("mostly", "row_condition", "condition_parser", "match_on"),
    ),
    "expect_column_values_to_not_be_in_set": (("column", "value_set"), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_not_be_null": (("column",), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_not_be_outliers": (
        ("column",),
        ("mostly", "row_condition", "condition_parser", "method", "multiplier"),
    ),
    "expect_column_values_to_not_match_like_pattern": (
        ("column", "like_pattern"),
        ("mostly", "row_condition", "condition_parser", "escape"),
    ),
    "expect_column_values_to_not_match_like_pattern_list": (
        ("column", "like_pattern_list"),
        ("mostly", "row_condition", "condition_parser", "escape"),
    ),
    "expect_column_values_to_not_match_regex": (("column", "regex"), ("mostly", "row_condition", "condition_parser")),
    "expect_column_values_to_not_match_regex_list": (
        ("column", "regex_list"),
        ("mostly", "row_condition", "condition_parser"),
    ),
    "expect_compound_columns_to_be_unique": (
        ("column_list",),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_multicolumn_sum_to_equal": (
        ("column_list", "sum_total"),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_multicolumn_values_to_be_equal": (
        ("column_list",),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_query_results_to_match_comparison": (
        ("base_query", "comparison_data_source_name", "comparison_query"),
        ("mostly",),
    ),
    "expect_select_column_values_to_be_unique_within_record": (
        ("column_list",),
        ("mostly", "row_condition", "condition_parser", "ignore_row_if"),
    ),
    "expect_table_column_count_to_be_between": ((), ("min_value", "max_value")),
    "expect_table_column_count_to_equal": (("value",), ()),
    "expect_table_columns_to_match_ordered_list": ((), ("column_list",)),
    "expect_table_columns_to_match_set": ((), ("column_set", "exact_match")),
    "expect_table_row_count_to_be_between": (
        (),
        ("min_value", "max_value", "strict_min", "strict_max", "row_condition", "condition_parser"),
    ),
    "expect_table_row_count_to_equal": (
        ("value",),
        (
            "row_condition",
            "condition_parser",
        ),
    ),
    "expect_table_row_count_to_equal_other_table": (
        ("other_table_name",),
        (
            "row_condition",
            "condition_parser",
        ),
    ),
    "unexpected_rows_expectation": (("unexpected_rows_query",), ()),
}

# Expectations of Great Expectations that cannot run on rows in PostgreSQL.
NOT_ON_POSTGRESQL: tuple[str, ...] = (
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_be_decreasing",
    "expect_column_values_to_be_increasing",
    "expect_column_values_to_be_json_parseable",
    "expect_column_values_to_match_json_schema",
    "expect_column_values_to_match_strftime_format",
)
# Arguments that name columns of the target: one name, or a list of names.
COLUMN_ARGUMENTS = (
    "column",
    "column_A",
    "column_B",
    "column_list",
    "column_set",
    "columns",
    "key",
    "order_by",
    "sequence",
)

# Families of types whose values PostgreSQL compares with each other.
NUMBERS = families_of("number")
TEXTS = families_of("text")
MOMENTS = families_of("moment")
# Families that have an order or a hash, so that PostgreSQL finds distinct values.
_DISTINCT = families_of("number", "text", "moment", "boolean", "bytes", "time", "uuid")
# Families that have equality.
_EQUAL = (*_DISTINCT, "jsonb")
# The types of columns that an expectation can run on; on columns of other types it crashes on PostgreSQL.
# An expectation without a row here runs on every type.
RUNS_ON: dict[str, tuple[str, ...]] = {
    name: families
    for families, names in {
        NUMBERS: (
            "expect_column_mean_to_be_between",
            "expect_column_stdev_to_be_between",
            "expect_column_sum_to_be_between",
            "expect_column_value_z_scores_to_be_less_than",
            "expect_column_values_to_not_be_outliers",
            "expect_multicolumn_sum_to_equal",
        ),
        # The median of an even number of values is their mean.
        (*NUMBERS, "boolean"): ("expect_column_quantile_values_to_be_between", "expect_column_median_to_be_between"),
        (*NUMBERS, *MOMENTS): ("expect_column_values_to_be_between",),
        (*NUMBERS, *TEXTS, *MOMENTS, "time", "bytea"): (
            "expect_column_max_to_be_between",
            "expect_column_min_to_be_between",
        ),
        TEXTS: tuple(name for name in EXPECTATIONS if "_match_regex" in name or "_match_like_pattern" in name),
        (*TEXTS, "bytea"): (
            "expect_column_value_lengths_to_be_between",
            "expect_column_value_lengths_to_equal",
        ),
        _DISTINCT: (
            "expect_column_distinct_values_to_be_in_set",
            "expect_column_distinct_values_to_contain_set",
            "expect_column_distinct_values_to_equal_set",
            "expect_column_kl_divergence_to_be_less_than",
            "expect_column_most_common_value_to_be_in_set",
        ),
        _EQUAL: (
            "expect_column_pair_values_a_to_be_greater_than_b",
            "expect_column_pair_values_to_be_equal",
            "expect_column_pair_values_to_be_in_set",
            "expect_column_proportion_of_unique_values_to_be_between",
            "expect_column_unique_value_count_to_be_between",
            "expect_column_values_to_be_in_set",
            "expect_column_values_to_be_unique",
            "expect_column_values_to_not_be_in_set",
            "expect_compound_columns_to_be_unique",
            "expect_multicolumn_values_to_be_equal",
            "expect_select_column_values_to_be_unique_within_record",
        ),
    }.items()
    for name in names
}
