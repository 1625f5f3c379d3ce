-- name: run_result
-- Runs statements of a result as the role of results.
select penstock.run_result(%(statements)s)
