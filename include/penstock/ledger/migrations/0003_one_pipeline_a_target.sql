-- Two pipelines in one table could not be told apart there: their offsets are those of different topics.
create unique index pipeline_target on penstock.pipeline (target);
