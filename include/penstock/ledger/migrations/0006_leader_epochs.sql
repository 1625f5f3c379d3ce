-- A log that was cut and has grown again shows by its leaders' epochs, and by nothing else (KIP-320).
alter table penstock.load_range add column leader_epoch int;
alter table penstock.position add column leader_epoch int;
comment on column penstock.load_range.leader_epoch is 'The epoch of the partition''s leader when the range was planned.';
comment on column penstock.position.leader_epoch is 'The epoch in which the position was planned; what lies below it is of this epoch or an earlier one.';
