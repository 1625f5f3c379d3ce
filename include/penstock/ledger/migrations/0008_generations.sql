-- A log can be cut and stay the same topic, and a topic can come back: an epoch tells such generations apart.

alter table penstock.generation add column epoch int not null default 1 check (epoch > 0);
alter table penstock.generation
    drop constraint generation_pipeline_id_cluster_id_topic_id_key,
    add constraint generation_identity unique (pipeline_id, cluster_id, topic_id, epoch);
comment on column penstock.generation.epoch is
    'Counts how often a person adopted this very topic: its offsets mean other records from one epoch to the next.';

create view penstock.generations as
select p.name as pipeline, g.generation_id as generation, g.cluster_id, g.topic_id, g.epoch, g.opened_at
from penstock.generation g join penstock.pipeline p using (pipeline_id);
