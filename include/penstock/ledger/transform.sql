-- name: record_transform
-- Records which file transforms the rows of an attempt.
update penstock.load set transform_sha256 = %(sha256)s
where load_id = %(load_id)s and attempt = %(attempt)s and state = 'staging'

-- name: record_decoded
-- Records which offsets of chunks were decoded, in the transaction that records the chunks themselves. The chunks ($3) are
-- JSON, so that one statement records a whole group.
insert into penstock.decoded (load_id, attempt, task, places, hashes)
select $1::bigint, $2::int, t.task, decode(t.places, 'base64'), decode(t.hashes, 'base64')
from json_to_recordset($3::text::json) as t (task int, places text, hashes text)

-- name: find_written
-- Whether the attempt ($2) of the load ($1) still counts, and whether some try of the part ($3) has committed its rows.
select l.attempt = $2::int and l.state in ('staging', 'staged', 'validated', 'held', 'published') as current,
       exists (select from penstock.written w where w.load_id = $1::bigint and w.attempt = $2::int and w.part = $3::int)
           as done
from penstock.load l where l.load_id = $1::bigint

-- name: record_written
-- Records the rows of a part ($3) by chunk: one try of each part succeeds, and only while its attempt counts.
insert into penstock.written (load_id, attempt, part, task, rows, places, hash, refused)
select $1::bigint, $2::int, $3::int, t.task, t.rows, decode(t.places, 'base64'), t.hash, t.refused
from json_to_recordset($4::text::json) as t (task int, rows bigint, places text, hash bigint, refused jsonb)
where exists (select from penstock.load where load_id = $1::bigint and attempt = $2::int and state = 'staging')
on conflict do nothing
returning task

-- name: forget_refused
-- Deletes what another try of the same task has written about refused rows. The offsets ($4) are JSON.
delete from penstock.quarantine q
using json_to_recordset($3::text::json) as r (partition int, "offset" bigint)
where q.load_id = $1::bigint and q.attempt = $2::int and q.partition = r.partition and q."offset" = r."offset"

-- name: read_refused
-- The rows of a transform that the target refused, by chunk: offset, reason and detail.
select task, refused from penstock.written
where load_id = %(load_id)s and attempt = %(attempt)s and refused <> '{}' order by task

-- name: read_accounts
-- Some chunks after a task: the offsets that were decoded, and the rows that the transform made of them.
select t.task, t.partition, t.from_offset, t.until_offset, d.places, d.hashes,
       coalesce((select jsonb_agg(jsonb_build_object('places', encode(w.places, 'hex'), 'hash', w.hash, 'refused', w.refused))
                 from penstock.written w
                 where w.load_id = t.load_id and w.attempt = t.attempt and w.task = t.task), '[]') as written
from penstock.stage_task t join penstock.decoded d using (load_id, attempt, task)
where t.load_id = %(load_id)s and t.attempt = %(attempt)s and t.task > %(after)s
order by t.task limit %(most)s

-- name: settle_accounts
-- Turns the counts of decoded records into those of rows, refused and filtered records. %(accounts)s is a JSON array.
update penstock.stage_task t
set rows = a.rows, quarantined = t.quarantined + a.refused, filtered = a.filtered
from jsonb_to_recordset(%(accounts)s) as a (task int, rows bigint, refused bigint, filtered bigint)
where t.load_id = %(load_id)s and t.attempt = %(attempt)s and t.task = a.task

-- name: record_filtered
-- Records the offsets of filtered records. %(pieces)s is a JSON array.
insert into penstock.filtered (load_id, attempt, partition, from_offset, places)
select %(load_id)s, %(attempt)s, f.partition, f.from_offset, decode(f.places, 'hex')
from jsonb_to_recordset(%(pieces)s) as f (partition int, from_offset bigint, places text)

-- name: forget_decoded
-- Deletes what the balance of an attempt has used.
delete from penstock.decoded where load_id = %(load_id)s

-- name: forget_written
-- Deletes what the balance of an attempt has used.
delete from penstock.written where load_id = %(load_id)s
