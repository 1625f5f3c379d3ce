-- Each verification examines the unexplained holes again. Without this index it searched them among all that are named,
-- of all pipelines: with transactional producers each range of each load has a marker.
create index naming_unexplained on penstock.naming (load_id, partition) where unexplained > 0;
