-- A ledger and its target as the migrations 0001 to 0014 and the code of that time left them: two live loads, a load
-- that was rolled back, a replay of a part, a load that failed, a validated one; a hold that was told, a verification.
CREATE SCHEMA analytics;
CREATE TABLE analytics.orders (
    id bigint NOT NULL,
    note text,
    _load_id bigint NOT NULL,
    _partition integer NOT NULL,
    _offset bigint NOT NULL,
    _timestamp timestamp with time zone
)
PARTITION BY RANGE (_load_id);
CREATE TABLE analytics.orders_load_1 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_1_1__load_id_check CHECK (((_load_id >= 1) AND (_load_id < 2)))
);
CREATE TABLE analytics.orders_load_2 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_2_1__load_id_check CHECK (((_load_id >= 2) AND (_load_id < 3)))
);
CREATE TABLE analytics.orders_load_4 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_4_1__load_id_check CHECK (((_load_id >= 4) AND (_load_id < 5)))
);
CREATE TABLE penstock_kept.load_3 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_3_1__load_id_check CHECK (((_load_id >= 3) AND (_load_id < 4)))
);
CREATE TABLE penstock_stage.load_6_1 (
    id bigint CONSTRAINT orders_id_not_null NOT NULL,
    note text,
    _load_id bigint CONSTRAINT orders__load_id_not_null NOT NULL,
    _partition integer CONSTRAINT orders__partition_not_null NOT NULL,
    _offset bigint CONSTRAINT orders__offset_not_null NOT NULL,
    _timestamp timestamp with time zone,
    CONSTRAINT load_6_1__load_id_check CHECK (((_load_id >= 6) AND (_load_id < 7)))
);
ALTER TABLE ONLY analytics.orders ATTACH PARTITION analytics.orders_load_1 FOR VALUES FROM ('1') TO ('2');
ALTER TABLE ONLY analytics.orders ATTACH PARTITION analytics.orders_load_2 FOR VALUES FROM ('2') TO ('3');
ALTER TABLE ONLY analytics.orders ATTACH PARTITION analytics.orders_load_4 FOR VALUES FROM ('4') TO ('5');
INSERT INTO analytics.orders_load_1 VALUES
	(0, 'note of 0', 1, 0, 0, NULL),
	(1, 'note of 1', 1, 0, 1, NULL),
	(2, 'note of 2', 1, 0, 2, NULL),
	(4, 'note of 4', 1, 0, 4, NULL),
	(5, 'note of 5', 1, 0, 5, NULL),
	(6, 'note of 6', 1, 0, 6, NULL),
	(7, 'note of 7', 1, 0, 7, NULL),
	(8, 'note of 8', 1, 0, 8, NULL),
	(9, 'note of 9', 1, 0, 9, NULL),
	(15, 'note of 15', 1, 0, 15, NULL),
	(16, 'note of 16', 1, 0, 16, NULL),
	(17, 'note of 17', 1, 0, 17, NULL),
	(18, 'note of 18', 1, 0, 18, NULL),
	(19, 'note of 19', 1, 0, 19, NULL),
	(5, 'note of 5', 1, 1, 5, NULL),
	(6, 'note of 6', 1, 1, 6, NULL),
	(9, 'note of 9', 1, 1, 9, NULL),
	(10, 'note of 10', 1, 1, 10, NULL),
	(11, 'note of 11', 1, 1, 11, NULL),
	(12, 'note of 12', 1, 1, 12, NULL);
INSERT INTO analytics.orders_load_1 VALUES
	(13, 'note of 13', 1, 1, 13, NULL),
	(14, 'note of 14', 1, 1, 14, NULL);
INSERT INTO analytics.orders_load_2 VALUES
	(20, 'note of 20', 2, 0, 20, NULL),
	(21, 'note of 21', 2, 0, 21, NULL),
	(22, 'note of 22', 2, 0, 22, NULL),
	(23, 'note of 23', 2, 0, 23, NULL),
	(24, 'note of 24', 2, 0, 24, NULL),
	(25, 'note of 25', 2, 0, 25, NULL),
	(26, 'note of 26', 2, 0, 26, NULL),
	(27, 'note of 27', 2, 0, 27, NULL),
	(28, 'note of 28', 2, 0, 28, NULL),
	(29, 'note of 29', 2, 0, 29, NULL),
	(30, 'note of 30', 2, 0, 30, NULL),
	(31, 'note of 31', 2, 0, 31, NULL),
	(32, 'note of 32', 2, 0, 32, NULL),
	(33, 'note of 33', 2, 0, 33, NULL),
	(34, 'note of 34', 2, 0, 34, NULL),
	(35, 'note of 35', 2, 0, 35, NULL),
	(36, 'note of 36', 2, 0, 36, NULL),
	(37, 'note of 37', 2, 0, 37, NULL),
	(38, 'note of 38', 2, 0, 38, NULL),
	(39, 'note of 39', 2, 0, 39, NULL);
INSERT INTO analytics.orders_load_4 VALUES
	(10, 'note of 10', 4, 0, 10, NULL),
	(11, 'note of 11', 4, 0, 11, NULL),
	(12, 'note of 12', 4, 0, 12, NULL),
	(13, 'note of 13', 4, 0, 13, NULL),
	(14, 'note of 14', 4, 0, 14, NULL);
INSERT INTO penstock_kept.load_3 VALUES
	(40, 'note of 40', 3, 0, 40, NULL),
	(41, 'note of 41', 3, 0, 41, NULL),
	(42, 'note of 42', 3, 0, 42, NULL),
	(43, 'note of 43', 3, 0, 43, NULL),
	(44, 'note of 44', 3, 0, 44, NULL),
	(45, 'note of 45', 3, 0, 45, NULL),
	(46, 'note of 46', 3, 0, 46, NULL),
	(47, 'note of 47', 3, 0, 47, NULL),
	(48, 'note of 48', 3, 0, 48, NULL),
	(49, 'note of 49', 3, 0, 49, NULL),
	(50, 'note of 50', 3, 0, 50, NULL),
	(51, 'note of 51', 3, 0, 51, NULL),
	(52, 'note of 52', 3, 0, 52, NULL),
	(53, 'note of 53', 3, 0, 53, NULL),
	(54, 'note of 54', 3, 0, 54, NULL),
	(55, 'note of 55', 3, 0, 55, NULL),
	(56, 'note of 56', 3, 0, 56, NULL),
	(57, 'note of 57', 3, 0, 57, NULL),
	(58, 'note of 58', 3, 0, 58, NULL),
	(59, 'note of 59', 3, 0, 59, NULL);
INSERT INTO penstock_stage.load_6_1 VALUES
	(60, 'note of 60', 6, 0, 60, NULL),
	(62, 'note of 62', 6, 0, 62, NULL),
	(63, 'note of 63', 6, 0, 63, NULL),
	(64, 'note of 64', 6, 0, 64, NULL),
	(65, 'note of 65', 6, 0, 65, NULL),
	(66, 'note of 66', 6, 0, 66, NULL),
	(67, 'note of 67', 6, 0, 67, NULL),
	(68, 'note of 68', 6, 0, 68, NULL),
	(69, 'note of 69', 6, 0, 69, NULL),
	(70, 'note of 70', 6, 0, 70, NULL),
	(71, 'note of 71', 6, 0, 71, NULL),
	(72, 'note of 72', 6, 0, 72, NULL),
	(73, 'note of 73', 6, 0, 73, NULL),
	(74, 'note of 74', 6, 0, 74, NULL),
	(75, 'note of 75', 6, 0, 75, NULL),
	(76, 'note of 76', 6, 0, 76, NULL),
	(77, 'note of 77', 6, 0, 77, NULL),
	(78, 'note of 78', 6, 0, 78, NULL),
	(79, 'note of 79', 6, 0, 79, NULL);
ALTER TABLE ONLY analytics.orders_load_1
    ADD CONSTRAINT load_1_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY analytics.orders_load_2
    ADD CONSTRAINT load_2_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY analytics.orders_load_4
    ADD CONSTRAINT load_4_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY penstock_kept.load_3
    ADD CONSTRAINT load_3_1_pkey PRIMARY KEY (_partition, _offset);
ALTER TABLE ONLY penstock_stage.load_6_1
    ADD CONSTRAINT load_6_1_pkey PRIMARY KEY (_partition, _offset);
CREATE INDEX orders_id_idx ON ONLY analytics.orders USING btree (id);
CREATE INDEX load_1_1_id_idx ON analytics.orders_load_1 USING btree (id);
CREATE INDEX load_2_1_id_idx ON analytics.orders_load_2 USING btree (id);
CREATE INDEX load_4_1_id_idx ON analytics.orders_load_4 USING btree (id);
CREATE INDEX load_3_1_id_idx ON penstock_kept.load_3 USING btree (id);
CREATE INDEX load_6_1_id_idx ON penstock_stage.load_6_1 USING btree (id);
ALTER INDEX analytics.orders_id_idx ATTACH PARTITION analytics.load_1_1_id_idx;
ALTER INDEX analytics.orders_id_idx ATTACH PARTITION analytics.load_2_1_id_idx;
ALTER INDEX analytics.orders_id_idx ATTACH PARTITION analytics.load_4_1_id_idx;
INSERT INTO penstock.pipeline OVERRIDING SYSTEM VALUE VALUES
	(1, 'orders', 'topic', 'analytics.orders', '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', '2026-11-19 04:12:39.440723+00', '2026-11-19 04:12:39.440723+00');
INSERT INTO penstock.generation OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 'c', 't', '2026-11-19 04:12:39.440723+00', 1);
INSERT INTO penstock.load OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 1, 'live', 'published', 'live [Range(partition=0, from_offset=0, until_offset=20), Range(partition=1, from_offset=5, until_offset=15)]', 1, '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', NULL, 27, 2, 1, NULL, NULL, '2026-11-19 04:12:39.440723+00', '2026-11-19 04:12:39.440723+00', '2026-11-19 04:12:39.440723+00', '2026-11-19 04:12:42.037694+00', NULL, '2026-11-19 04:12:42.051443+00', '2026-11-19 04:12:42.051443+00', NULL, NULL),
	(2, 1, 1, 'live', 'published', 'live [Range(partition=0, from_offset=20, until_offset=40)]', 1, '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', NULL, 20, 0, 0, NULL, NULL, '2026-11-19 04:12:42.072814+00', '2026-11-19 04:12:42.072814+00', '2026-11-19 04:12:42.072814+00', '2026-11-19 04:12:42.168277+00', NULL, '2026-11-19 04:12:42.185953+00', '2026-11-19 04:12:42.185953+00', NULL, NULL),
	(3, 1, 1, 'live', 'rolled_back', 'live [Range(partition=0, from_offset=40, until_offset=60)]', 1, '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', NULL, 20, 0, 0, 'prices of a test', NULL, '2026-11-19 04:12:42.205972+00', '2026-11-19 04:12:42.205972+00', '2026-11-19 04:12:42.205972+00', '2026-11-19 04:12:42.285766+00', NULL, '2026-11-19 04:12:42.301512+00', '2026-11-19 04:12:42.323386+00', NULL, '2026-12-19 04:12:42.323386+00'),
	(4, 1, 1, 'replay', 'published', 'replay [Range(partition=0, from_offset=10, until_offset=15)]', 1, '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', NULL, 5, 0, 0, NULL, NULL, '2026-11-19 04:12:42.361932+00', '2026-11-19 04:12:42.361932+00', '2026-11-19 04:12:42.361932+00', '2026-11-19 04:12:42.474303+00', NULL, '2026-11-19 04:12:42.488831+00', '2026-11-19 04:12:42.488831+00', NULL, NULL),
	(5, 1, 1, 'live', 'failed', 'live [Range(partition=0, from_offset=60, until_offset=70)]', 0, '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', NULL, NULL, NULL, NULL, 'poison', NULL, '2026-11-19 04:12:42.521699+00', NULL, NULL, NULL, NULL, NULL, '2026-11-19 04:12:42.544513+00', NULL, NULL),
	(6, 1, 1, 'live', 'validated', 'live [Range(partition=0, from_offset=60, until_offset=80)]', 1, '{"key": null, "mode": "append", "name": "orders", "tags": [], "kafka": "kafka_default", "owner": "penstock", "start": "earliest", "topic": "topic", "value": "json", "alerts": null, "checks": [], "poison": "quarantine", "reader": "native", "target": "analytics.orders", "columns": [{"name": "id", "path": "$.id", "type": "bigint", "unit": null, "required": true}, {"name": "note", "path": "$.note", "type": "text", "unit": null, "required": false}], "indexes": [["id"]], "on_loss": "stop", "retries": 3, "schedule": "@hourly", "isolation": "read_committed", "description": null, "max_quarantined": null, "timeout_minutes": 120, "keep_quarantine_days": null, "keep_rolled_back_days": 30, "max_records_per_partition": 5000000}', NULL, 19, 1, 0, NULL, NULL, '2026-11-19 04:12:42.562903+00', '2026-11-19 04:12:42.562903+00', '2026-11-19 04:12:42.562903+00', '2026-11-19 04:12:42.589781+00', NULL, NULL, NULL, NULL, NULL);
INSERT INTO penstock.aside VALUES
	(3, 0, '[40,60)', 20, 0, 0, -9031321692619943960);
INSERT INTO penstock.check_result VALUES
	(1, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 19, "outside": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 1, 'builtin', 'expect_offsets_to_be_in_plan', 1, NULL, 'error', true, '{"rows": 8, "outside": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 2, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 3, 'builtin', 'expect_offsets_to_be_unique', 1, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 4, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 5, 'builtin', 'expect_offsets_to_rise_strictly', 1, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 6, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 7, 'builtin', 'expect_quarantine_to_be_in_plan', 1, NULL, 'error', true, '{"outside": 0, "quarantined": 2}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 8, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 19, "holes": 1, "planned": 20, "quarantined": 0, "unaccounted": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 9, 'builtin', 'expect_offsets_to_be_accounted_for', 1, NULL, 'error', true, '{"rows": 8, "holes": 0, "planned": 10, "quarantined": 2, "unaccounted": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 10, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 0, "position": 0}', '2026-11-19 04:12:42.037694+00'),
	(1, 1, 11, 'builtin', 'expect_position_to_be_fresh', 1, NULL, 'error', true, '{"from": 5, "position": 5}', '2026-11-19 04:12:42.037694+00'),
	(2, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 20, "outside": 0}', '2026-11-19 04:12:42.168277+00'),
	(2, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 04:12:42.168277+00'),
	(2, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 04:12:42.168277+00'),
	(2, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 04:12:42.168277+00'),
	(2, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 20, "holes": 0, "planned": 20, "quarantined": 0, "unaccounted": 0}', '2026-11-19 04:12:42.168277+00'),
	(2, 1, 5, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 20, "position": 20}', '2026-11-19 04:12:42.168277+00'),
	(3, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 20, "outside": 0}', '2026-11-19 04:12:42.285766+00'),
	(3, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 04:12:42.285766+00');
INSERT INTO penstock.check_result VALUES
	(3, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 04:12:42.285766+00'),
	(3, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 04:12:42.285766+00'),
	(3, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 20, "holes": 0, "planned": 20, "quarantined": 0, "unaccounted": 0}', '2026-11-19 04:12:42.285766+00'),
	(3, 1, 5, 'builtin', 'expect_position_to_be_fresh', 0, NULL, 'error', true, '{"from": 40, "position": 40}', '2026-11-19 04:12:42.285766+00'),
	(4, 1, 0, 'builtin', 'expect_offsets_to_be_in_plan', 0, NULL, 'error', true, '{"rows": 5, "outside": 0}', '2026-11-19 04:12:42.474303+00'),
	(4, 1, 1, 'builtin', 'expect_offsets_to_be_unique', 0, NULL, 'error', true, '{"by": "key", "twice": 0, "quarantined_too": 0}', '2026-11-19 04:12:42.474303+00'),
	(4, 1, 2, 'builtin', 'expect_offsets_to_rise_strictly', 0, NULL, 'error', true, '{"chunks": 1, "unread": 0, "overlapping": 0}', '2026-11-19 04:12:42.474303+00'),
	(4, 1, 3, 'builtin', 'expect_quarantine_to_be_in_plan', 0, NULL, 'error', true, '{"outside": 0, "quarantined": 0}', '2026-11-19 04:12:42.474303+00'),
	(4, 1, 4, 'builtin', 'expect_offsets_to_be_accounted_for', 0, NULL, 'error', true, '{"rows": 5, "holes": 0, "planned": 5, "quarantined": 0, "unaccounted": 0}', '2026-11-19 04:12:42.474303+00'),
	(6, 1, 0, 'builtin', 'expect_all_offsets', 0, NULL, 'error', true, '{"n": 1}', '2026-11-19 04:12:42.589781+00');
INSERT INTO penstock.coverage OVERRIDING SYSTEM VALUE VALUES
	(2, 1, 1, 1, '[5,15)', 1, 8, 2, 0, -2271962799388680561),
	(3, 1, 1, 0, '[20,40)', 2, 20, 0, 0, 44596998313841859736),
	(5, 1, 1, 0, '[0,10)', 1, 9, 0, 1, 29071723640410598480),
	(6, 1, 1, 0, '[15,20)', 1, 5, 0, 0, -14183072037944695030),
	(7, 1, 1, 0, '[10,15)', 4, 5, 0, 0, -8359499966337090241);
INSERT INTO penstock.hold OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 'log_lost', 'offsets 3 to 5 are lost', '2026-11-19 04:12:42.598407+00', '2026-11-19 04:12:42.598407+00', 'loss accepted');
INSERT INTO penstock.event OVERRIDING SYSTEM VALUE VALUES
	(1, '2026-11-19 04:12:42.061638+00', 'penstock', 1, 1, 'published', NULL, NULL),
	(2, '2026-11-19 04:12:42.198445+00', 'penstock', 1, 2, 'published', NULL, NULL),
	(3, '2026-11-19 04:12:42.310682+00', 'penstock', 1, 3, 'published', NULL, NULL),
	(4, '2026-11-19 04:12:42.339105+00', 'ann', 1, 3, 'rolled_back', 'prices of a test', NULL),
	(5, '2026-11-19 04:12:42.503306+00', 'penstock', 1, 4, 'published', NULL, NULL),
	(6, '2026-11-19 04:12:42.548976+00', 'penstock', 1, 5, 'failed', 'poison', NULL),
	(7, '2026-11-19 04:12:42.600016+00', 'penstock', 1, NULL, 'alerted:hold_began', NULL, 1);
INSERT INTO penstock.verification OVERRIDING SYSTEM VALUE VALUES
	(1, 1, 'ann', 1, '2026-11-19 04:12:42.598407+00', '2026-11-19 04:12:42.598407+00', NULL, NULL, NULL, NULL, NULL);
INSERT INTO penstock.load_range VALUES
	(1, 0, 0, 20, 19, 0, 1, NULL, 6529151636128813209),
	(1, 1, 5, 15, 8, 2, 0, NULL, -2271962799388680561),
	(2, 0, 20, 40, 20, 0, 0, NULL, 44596998313841859736),
	(3, 0, 40, 60, 20, 0, 0, NULL, -9031321692619943960),
	(4, 0, 10, 15, 5, 0, 0, NULL, -8359499966337090241),
	(5, 0, 60, 70, NULL, NULL, NULL, NULL, NULL),
	(6, 0, 60, 80, 19, 1, 0, NULL, NULL);
INSERT INTO penstock."position" VALUES
	(1, 1, 15, 5, 1, '2026-11-19 04:12:42.051443+00', NULL),
	(1, 0, 60, 0, 3, '2026-11-19 04:12:42.301512+00', NULL);
INSERT INTO penstock.quarantine VALUES
	(1, 1, 1, 7, 'bad_json', 'not JSON', NULL, NULL, '[]', NULL, NULL),
	(1, 1, 1, 8, 'bad_json', 'not JSON', NULL, NULL, '[]', NULL, NULL),
	(6, 1, 0, 61, 'bad_json', 'not JSON', NULL, NULL, '[]', NULL, NULL);
INSERT INTO penstock.stage_task VALUES
	(1, 1, 0, 0, 0, 20, 19, 0, 1, '2026-11-19 04:12:39.459459+00', NULL),
	(1, 1, 1, 1, 5, 15, 8, 2, 0, '2026-11-19 04:12:39.45973+00', NULL),
	(2, 1, 0, 0, 20, 40, 20, 0, 0, '2026-11-19 04:12:42.085299+00', NULL),
	(3, 1, 0, 0, 40, 60, 20, 0, 0, '2026-11-19 04:12:42.217549+00', NULL),
	(4, 1, 0, 0, 10, 15, 5, 0, 0, '2026-11-19 04:12:42.372875+00', NULL),
	(6, 1, 0, 0, 60, 80, 19, 1, 0, '2026-11-19 04:12:42.577774+00', NULL);
SELECT pg_catalog.setval('penstock.backfill_backfill_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.coverage_coverage_id_seq', 7, true);
SELECT pg_catalog.setval('penstock.event_event_id_seq', 7, true);
SELECT pg_catalog.setval('penstock.generation_generation_id_seq', 1, true);
SELECT pg_catalog.setval('penstock.hold_hold_id_seq', 1, true);
SELECT pg_catalog.setval('penstock.load_load_id_seq', 6, true);
SELECT pg_catalog.setval('penstock.loss_loss_id_seq', 1, false);
SELECT pg_catalog.setval('penstock.pipeline_pipeline_id_seq', 6, true);
SELECT pg_catalog.setval('penstock.verification_verification_id_seq', 1, true);
