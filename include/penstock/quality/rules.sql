-- name: try_rule
-- Runs a rule on no row: a rule that cannot run fails here, before any row is read.
select {judged} as rule from {no_rows} no_rows

-- name: try_condition
-- Runs the condition of a rule on no row, in WHERE: the server refuses what needs more than one row, such as an aggregate
-- or a window function.
select from {no_rows} no_rows where ({condition})

-- name: try_brackets
-- Runs the condition on no row, in square brackets: the server refuses a condition that closes a round bracket which it
-- has not opened, and so would take in a part of the statement around it.
select array[{condition}] as rule from {no_rows} no_rows

-- name: count_failed
-- The rows of {staged} that fail each rule (by its place), and those that fail none (null). Rows in the two lists are
-- left out, because a rule cannot be computed for them. With OFFSET 0 the server computes the rules for the chosen rows
-- only, in one pass without memory.
select judged.rule, count(*) as rows
from (select {judged} as rule from {staged} s
      where not exists (select from unnest(%(partitions)s::int[], %(offsets)s::bigint[]) as c (partition, "offset")
                        where c.partition = s._partition and c."offset" = s._offset)
      offset 0) judged
group by judged.rule

-- name: list_failed
-- The places of the rows of {staged} that fail a rule, each with the place of the first rule that it fails.
select judged._partition as partition, judged._offset as "offset", judged.rule
from (select s._partition, s._offset, {judged} as rule from {staged} s
      where not exists (select from unnest(%(partitions)s::int[], %(offsets)s::bigint[]) as c (partition, "offset")
                        where c.partition = s._partition and c."offset" = s._offset)
      offset 0) judged
where judged.rule is not null
order by 1, 2 limit %(most)s

-- name: judge_range
-- The rows of a range of {staged} that fail a rule: it fails if a rule cannot be computed for one of these rows.
select count(*) as rows
from (select {judged} as rule from {staged}
      where _partition = %(partition)s and _offset >= %(from_offset)s and _offset < %(until_offset)s offset 0) judged
where judged.rule is not null
