SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.graftwork_notify() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_notify('graftwork_events', ''); RETURN NULL; END $$;
CREATE FUNCTION public.graftwork_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.adapters (
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    name character varying(128) NOT NULL COLLATE pg_catalog."C",
    last_sequence bigint NOT NULL,
    created_at character varying(27) NOT NULL,
    created_by text NOT NULL
);
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.aliases (
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    adapter character varying(128) NOT NULL COLLATE pg_catalog."C",
    alias character varying(128) NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    updated_at character varying(27) NOT NULL,
    updated_by text NOT NULL
);
CREATE TABLE public.evaluations (
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    adapter character varying(128) NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    number bigint NOT NULL,
    family character varying(16) NOT NULL,
    name character varying(128) NOT NULL COLLATE pg_catalog."C",
    split character varying(16) NOT NULL,
    source character varying(16) NOT NULL,
    comparable character varying(71) NOT NULL,
    supersedes bigint,
    blobs text NOT NULL,
    body text NOT NULL,
    created_at character varying(27) NOT NULL,
    created_by text NOT NULL
);
CREATE TABLE public.events (
    "position" bigint NOT NULL,
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    at character varying(27) NOT NULL,
    actor text NOT NULL,
    kind character varying(64) NOT NULL,
    subject text NOT NULL,
    payload text NOT NULL,
    previous character varying(71) NOT NULL,
    hash character varying(71) NOT NULL
);
CREATE TABLE public.idempotency_keys (
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL,
    fingerprint character varying(71) NOT NULL,
    answer text NOT NULL,
    created_at character varying(27) NOT NULL
);
CREATE TABLE public.metrics (
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    adapter character varying(128) NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    number bigint NOT NULL,
    name character varying(128) NOT NULL COLLATE pg_catalog."C",
    value double precision NOT NULL
);
CREATE TABLE public.versions (
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    adapter character varying(128) NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    semver character varying(64) NOT NULL,
    digest character varying(71) NOT NULL,
    manifest text NOT NULL,
    stage character varying(16) NOT NULL,
    kind character varying(64) NOT NULL,
    base text NOT NULL,
    base_digest character varying(71) NOT NULL,
    rank bigint NOT NULL,
    bytes bigint NOT NULL,
    metadata text NOT NULL,
    account text NOT NULL,
    created_at character varying(27) NOT NULL,
    created_by text NOT NULL
);
INSERT INTO public.adapters VALUES ('local', 'tone', 3, '2026-11-30T08:41:54.701572Z', 'local');
INSERT INTO public.adapters VALUES ('local', 'voice', 1, '2026-11-30T08:41:54.856793Z', 'local');
INSERT INTO public.alembic_version VALUES ('0004');
INSERT INTO public.aliases VALUES ('local', 'tone', 'champion', 1, '2026-11-30T08:41:54.931921Z', 'local');
INSERT INTO public.aliases VALUES ('local', 'tone', 'production', 2, '2026-11-30T08:41:55.190661Z', 'local');
INSERT INTO public.aliases VALUES ('local', 'tone', 'previous', 1, '2026-11-30T08:41:55.190661Z', 'local');
INSERT INTO public.evaluations VALUES ('local', 'tone', 2, 1, 'task', 'sst2', 'test', 'offline', 'sha256:f7132ffdd21b085b98b8f59d93c03b3895ffe5b97fb8580001c8bddac06a67af', NULL, '["sha256:4fed5861ae29747f49294257d020e198ab81a1114d5cc06d068d0ee8a8dc35b5","sha256:d977d99e662013630fa5369b26e9798a4cc5a5dfa38e5200e729b2024e4df978"]', '{"dataset":{"id":"stanfordnlp/sst2"},"examples":{"digest":"sha256:4fed5861ae29747f49294257d020e198ab81a1114d5cc06d068d0ee8a8dc35b5"},"family":"task","metrics":[{"higher_is_better":true,"name":"accuracy","value":0.25}],"name":"sst2","reports":[{"digest":"sha256:d977d99e662013630fa5369b26e9798a4cc5a5dfa38e5200e729b2024e4df978","name":"report.txt"}],"split":"test"}', '2026-11-30T08:41:55.298730Z', 'local');
INSERT INTO public.evaluations VALUES ('local', 'tone', 2, 2, 'task', 'sst2', 'test', 'offline', 'sha256:f7132ffdd21b085b98b8f59d93c03b3895ffe5b97fb8580001c8bddac06a67af', 1, '["sha256:4fed5861ae29747f49294257d020e198ab81a1114d5cc06d068d0ee8a8dc35b5","sha256:d977d99e662013630fa5369b26e9798a4cc5a5dfa38e5200e729b2024e4df978"]', '{"dataset":{"id":"stanfordnlp/sst2"},"examples":{"digest":"sha256:4fed5861ae29747f49294257d020e198ab81a1114d5cc06d068d0ee8a8dc35b5"},"family":"task","metrics":[{"higher_is_better":true,"name":"accuracy","value":0.5}],"name":"sst2","reports":[{"digest":"sha256:d977d99e662013630fa5369b26e9798a4cc5a5dfa38e5200e729b2024e4df978","name":"report.txt"}],"split":"test","supersedes":1}', '2026-11-30T08:41:55.400281Z', 'local');
INSERT INTO public.events VALUES (1, 'local', '2026-11-30T08:41:54.701572Z', 'local', 'adapter.created', 'adapters/tone', '{"name":"tone"}', 'sha256:0000000000000000000000000000000000000000000000000000000000000000', 'sha256:cec9a0cb7f9ae0ce51135ff886f8bac591870942edbbbc7e76bbe6961f3ce953');
INSERT INTO public.events VALUES (2, 'local', '2026-11-30T08:41:54.701572Z', 'local', 'version.created', 'adapters/tone', '{"base":"fake-base","base_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","kind":"lora","sequence":1,"stage":"development","version":"1.0.0"}', 'sha256:cec9a0cb7f9ae0ce51135ff886f8bac591870942edbbbc7e76bbe6961f3ce953', 'sha256:3b487c2970be7d344fe90ccbb1548bfb0eb93d85f38f14d09f8bc5894a5cf0bb');
INSERT INTO public.events VALUES (3, 'local', '2026-11-30T08:41:54.780509Z', 'local', 'version.created', 'adapters/tone', '{"base":"fake-base","base_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","kind":"lora","sequence":2,"stage":"development","version":"1.1.0"}', 'sha256:3b487c2970be7d344fe90ccbb1548bfb0eb93d85f38f14d09f8bc5894a5cf0bb', 'sha256:20ab40b9e2969a0844bbc854bba59cbb5173fa53ce973afd4d9ccf19b2c1639a');
INSERT INTO public.events VALUES (4, 'local', '2026-11-30T08:41:54.818421Z', 'local', 'version.created', 'adapters/tone', '{"base":"fake-base","base_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","kind":"lora","sequence":3,"stage":"development","version":"1.1.1"}', 'sha256:20ab40b9e2969a0844bbc854bba59cbb5173fa53ce973afd4d9ccf19b2c1639a', 'sha256:470a7fbc516e3581553740a9517fe7c93e6be0203b8027358817304c6f677792');
INSERT INTO public.events VALUES (5, 'local', '2026-11-30T08:41:54.856793Z', 'local', 'adapter.created', 'adapters/voice', '{"name":"voice"}', 'sha256:470a7fbc516e3581553740a9517fe7c93e6be0203b8027358817304c6f677792', 'sha256:adb6e515cace02a96a7838751cf097caf80fdd0ed2bbe84e3a1f9cd1f0479b76');
INSERT INTO public.events VALUES (6, 'local', '2026-11-30T08:41:54.856793Z', 'local', 'version.created', 'adapters/voice', '{"base":"fake-base","base_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","digest":"sha256:f3cda0007d63eb99e9e1d5c7d72829eeb40742006414bdf83cf789a83307092b","kind":"lora","sequence":1,"stage":"development","version":"1.0.0"}', 'sha256:adb6e515cace02a96a7838751cf097caf80fdd0ed2bbe84e3a1f9cd1f0479b76', 'sha256:538081096886db57dca10e752bf350e7e1df7b03cd1c27730294045d5889a398');
INSERT INTO public.events VALUES (7, 'local', '2026-11-30T08:41:54.931921Z', 'local', 'alias.set', 'adapters/tone', '{"moves":[{"alias":"champion","from":null,"to":{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","sequence":1,"version":"1.0.0"}}],"reason":null,"stages":[]}', 'sha256:538081096886db57dca10e752bf350e7e1df7b03cd1c27730294045d5889a398', 'sha256:0df67a436995107e09042a6d17434f73ec10c673e9576f2bf02b1fe9fead6501');
INSERT INTO public.events VALUES (8, 'local', '2026-11-30T08:41:54.986918Z', 'local', 'alias.set', 'adapters/tone', '{"moves":[{"alias":"challenger","from":null,"to":{"digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","sequence":3,"version":"1.1.1"}}],"reason":null,"stages":[]}', 'sha256:0df67a436995107e09042a6d17434f73ec10c673e9576f2bf02b1fe9fead6501', 'sha256:b6d94a5272de0d5547659bc6a2f95892c7676200a923719897fa64df2fc7d623');
INSERT INTO public.events VALUES (9, 'local', '2026-11-30T08:41:55.011561Z', 'local', 'alias.removed', 'adapters/tone', '{"moves":[{"alias":"challenger","from":{"digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","sequence":3,"version":"1.1.1"},"to":null}],"reason":null,"stages":[]}', 'sha256:b6d94a5272de0d5547659bc6a2f95892c7676200a923719897fa64df2fc7d623', 'sha256:3ea6f9e62307609024bf967ee30ab7a748d95b2a820379d3178d088623cdc098');
INSERT INTO public.events VALUES (10, 'local', '2026-11-30T08:41:55.052021Z', 'local', 'version.promoted', 'adapters/tone', '{"moves":[{"alias":"production","from":null,"to":{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","sequence":1,"version":"1.0.0"}}],"reason":"1.0.0 is better","stages":[{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","from":"development","sequence":1,"to":"production","version":"1.0.0"}]}', 'sha256:3ea6f9e62307609024bf967ee30ab7a748d95b2a820379d3178d088623cdc098', 'sha256:c863eef00ef03a9ad4d256843b71478ee851cfee4bc9e7cd65f816509163d105');
INSERT INTO public.events VALUES (11, 'local', '2026-11-30T08:41:55.104004Z', 'local', 'version.promoted', 'adapters/tone', '{"moves":[{"alias":"production","from":{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","sequence":1,"version":"1.0.0"},"to":{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","sequence":2,"version":"1.1.0"}},{"alias":"previous","from":null,"to":{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","sequence":1,"version":"1.0.0"}}],"reason":"1.1.0 is better","stages":[{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","from":"production","sequence":1,"to":"archived","version":"1.0.0"},{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","from":"development","sequence":2,"to":"production","version":"1.1.0"}]}', 'sha256:c863eef00ef03a9ad4d256843b71478ee851cfee4bc9e7cd65f816509163d105', 'sha256:ed926235bd44d16e769096cf47034d4e11e6a5d644e52fa4fd0b05043d421066');
INSERT INTO public.events VALUES (12, 'local', '2026-11-30T08:41:55.143056Z', 'local', 'version.promoted', 'adapters/tone', '{"moves":[{"alias":"production","from":{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","sequence":2,"version":"1.1.0"},"to":{"digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","sequence":3,"version":"1.1.1"}},{"alias":"previous","from":{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","sequence":1,"version":"1.0.0"},"to":{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","sequence":2,"version":"1.1.0"}}],"reason":"1.1.1 is better","stages":[{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","from":"production","sequence":2,"to":"archived","version":"1.1.0"},{"digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","from":"development","sequence":3,"to":"production","version":"1.1.1"}]}', 'sha256:ed926235bd44d16e769096cf47034d4e11e6a5d644e52fa4fd0b05043d421066', 'sha256:03d64a71a76033876bc61f447af89ccd68bfe551794302b05e61894e39aaa363');
INSERT INTO public.events VALUES (13, 'local', '2026-11-30T08:41:55.190661Z', 'local', 'version.rolled_back', 'adapters/tone', '{"moves":[{"alias":"production","from":{"digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","sequence":3,"version":"1.1.1"},"to":{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","sequence":2,"version":"1.1.0"}},{"alias":"previous","from":{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","sequence":2,"version":"1.1.0"},"to":{"digest":"sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4","sequence":1,"version":"1.0.0"}}],"reason":"it was not","stages":[{"digest":"sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0","from":"production","sequence":3,"to":"archived","version":"1.1.1"},{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","from":"archived","sequence":2,"to":"production","version":"1.1.0"}]}', 'sha256:03d64a71a76033876bc61f447af89ccd68bfe551794302b05e61894e39aaa363', 'sha256:9601ec10022e9349277e99e528480217230f88f52a1b6d82e40731f502833c1f');
INSERT INTO public.events VALUES (14, 'local', '2026-11-30T08:41:55.298730Z', 'local', 'evaluation.added', 'adapters/tone', '{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","evaluation":"sha256:c643d36f0237dd8dc754f9cfc0a33e8f9911bc287027cc6fd89ad01414c3bc0c","family":"task","name":"sst2","number":1,"sequence":2,"supersedes":null,"version":"1.1.0"}', 'sha256:9601ec10022e9349277e99e528480217230f88f52a1b6d82e40731f502833c1f', 'sha256:edd2d3411ef3e12542d83dff46260baa26a63d6baa7ccd252a33894d1ceb501a');
INSERT INTO public.events VALUES (15, 'local', '2026-11-30T08:41:55.400281Z', 'local', 'evaluation.added', 'adapters/tone', '{"digest":"sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b","evaluation":"sha256:d5595e6fe0918b1bf588b7a3db49ba46bc21f40337a0be13344e82897aeafa7f","family":"task","name":"sst2","number":2,"sequence":2,"supersedes":1,"version":"1.1.0"}', 'sha256:edd2d3411ef3e12542d83dff46260baa26a63d6baa7ccd252a33894d1ceb501a', 'sha256:ed3f589be81ca3f15414b61f9b01ae03d130fae11a07d60b224e2efee3636f04');
INSERT INTO public.idempotency_keys VALUES ('local', 'push-tone', 'sha256:c4f7da85cb1fa7f7470cefe9ffdbcc4ba68d11a982764a011284dc4d00d29ea1', '{"adapter":"tone","aliases":[],"created":true,"sequence":1,"stage":"development"}', '2026-11-30T08:41:54.761314Z');
INSERT INTO public.idempotency_keys VALUES ('local', 'promote-1.0.0', 'sha256:ed4ea169111ccf1cd92799f58f2bba09365fa392257a49d47f4c1d6057c47e60', '{"adapter":"tone","aliases":["champion","production"],"created":false,"sequence":1,"stage":"production"}', '2026-11-30T08:41:55.060979Z');
INSERT INTO public.idempotency_keys VALUES ('local', 'promote-1.1.0', 'sha256:95942b48be53c29fad96ee777f9e9e889eb884783bec734932d53455e3ccc2ac', '{"adapter":"tone","aliases":["production"],"created":false,"sequence":2,"stage":"production"}', '2026-11-30T08:41:55.112351Z');
INSERT INTO public.idempotency_keys VALUES ('local', 'promote-1.1.1', 'sha256:0d36d76a554e262c2255f5906fa70b51bad0a1c3499078789380d9509361ff5d', '{"adapter":"tone","aliases":["production"],"created":false,"sequence":3,"stage":"production"}', '2026-11-30T08:41:55.147973Z');
INSERT INTO public.idempotency_keys VALUES ('local', 'rollback-tone', 'sha256:bbb941dcc8b4cd24517bc30bfb1b1bdaa263b8f0944186f1c209ad1ecc6c0a46', '{"adapter":"tone","aliases":["production"],"created":false,"sequence":2,"stage":"production"}', '2026-11-30T08:41:55.200333Z');
INSERT INTO public.idempotency_keys VALUES ('local', 'evaluation-0.25', 'sha256:303871ed7097b04837259bab70290d7cd7a2fccaff93b603c14476833d966bd0', '{"number":1}', '2026-11-30T08:41:55.316590Z');
INSERT INTO public.idempotency_keys VALUES ('local', 'evaluation-0.5', 'sha256:ca26256e49f409d3d7e5b4b40d1154d74a8d3cbebb379d4ea6de701356df5277', '{"number":2}', '2026-11-30T08:41:55.416723Z');
INSERT INTO public.metrics VALUES ('local', 'tone', 2, 1, 'accuracy', 0.25);
INSERT INTO public.metrics VALUES ('local', 'tone', 2, 2, 'accuracy', 0.5);
INSERT INTO public.versions VALUES ('local', 'voice', 1, '1.0.0', 'sha256:f3cda0007d63eb99e9e1d5c7d72829eeb40742006414bdf83cf789a83307092b', '{"files":[{"digest":"sha256:f083eac9401b3ce698c501ef19cc8a55341ca171d2d9515bcae7198490586515","path":"adapter_config.json","size":194},{"digest":"sha256:4dfd1e653813a3be7ffaf972288927a9373d5befa484537c21c0c0305fc27083","path":"adapter_model.safetensors","size":1512}]}', 'development', 'lora', 'fake-base', 'sha256:0000000000000000000000000000000000000000000000000000000000000000', 2, 512, '{"datasets":{"id":"squad"},"parents":"tone:1.1.0"}', '{"base":"fake-base","bytes":512,"companions":{"added_tokens":[],"chat_template":false,"defaults":{},"files":[],"stop_ids":[],"stop_token":null},"kind":"lora","ok":true,"problems":[],"rank":2,"tensors":[{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight","norm":0.2603776527864746,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight","norm":0.21152929763289582,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight","norm":0.2473131746772361,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight","norm":0.1938897896699423,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true}],"unused":[],"warnings":[]}', '2026-11-30T08:41:54.856793Z', 'local');
INSERT INTO public.versions VALUES ('local', 'tone', 1, '1.0.0', 'sha256:63a175478a6e79e961991542911089ffbd404580afa4e761acb8601634b76ca4', '{"files":[{"digest":"sha256:2327198375a8f670115f4163280964aacad6776025aad99fdcd483e9ed368bcb","path":"README.md","size":39},{"digest":"sha256:f083eac9401b3ce698c501ef19cc8a55341ca171d2d9515bcae7198490586515","path":"adapter_config.json","size":194},{"digest":"sha256:0fc6753eec0161ee2d6c765806bd4236b682119abc6eb124bda08ed9a99c2f3f","path":"adapter_model.safetensors","size":1512}]}', 'archived', 'lora', 'fake-base', 'sha256:0000000000000000000000000000000000000000000000000000000000000000', 2, 512, '{"description":"words of the first","parents":["meta-llama/Llama-3.1-8B"],"region":{"eu":[1,2.5]}}', '{"base":"fake-base","bytes":512,"companions":{"added_tokens":[],"chat_template":false,"defaults":{},"files":[],"stop_ids":[],"stop_token":null},"kind":"lora","ok":true,"problems":[],"rank":2,"tensors":[{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight","norm":0.14209157556389287,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight","norm":0.23622946985978582,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight","norm":0.24888846171503176,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight","norm":0.19140363732152368,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true}],"unused":[],"warnings":[]}', '2026-11-30T08:41:54.701572Z', 'local');
INSERT INTO public.versions VALUES ('local', 'tone', 2, '1.1.0', 'sha256:206c0bc0b07e97e48ccd35814ff515ddd6e19ccc795d62abd5f0608aaacf0d2b', '{"files":[{"digest":"sha256:f083eac9401b3ce698c501ef19cc8a55341ca171d2d9515bcae7198490586515","path":"adapter_config.json","size":194},{"digest":"sha256:425d53b390c03e1f85bc45fcd664a9c07bf89d730681eb9ee494795cb27a2b9c","path":"adapter_model.safetensors","size":1512}]}', 'production', 'lora', 'fake-base', 'sha256:0000000000000000000000000000000000000000000000000000000000000000', 2, 512, '{"hyperparameters":7,"parents":["tone:1.0.0"],"rank":"high"}', '{"base":"fake-base","bytes":512,"companions":{"added_tokens":[],"chat_template":false,"defaults":{},"files":[],"stop_ids":[],"stop_token":null},"kind":"lora","ok":true,"problems":[],"rank":2,"tensors":[{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight","norm":0.16338507281145662,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight","norm":0.14683330229579858,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight","norm":0.166112757123397,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight","norm":0.22036968268929483,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true}],"unused":[],"warnings":[]}', '2026-11-30T08:41:54.780509Z', 'local');
INSERT INTO public.versions VALUES ('local', 'tone', 3, '1.1.1', 'sha256:ba66e3ba33dd4344ca4ad5427ba24f53768f4212c9353517b2069ca933321ed0', '{"files":[{"digest":"sha256:f083eac9401b3ce698c501ef19cc8a55341ca171d2d9515bcae7198490586515","path":"adapter_config.json","size":194},{"digest":"sha256:25ab5a78f952aaf6644b781dabaec1cd7d00caeb563fff3c4dd8562fec3b58f0","path":"adapter_model.safetensors","size":1512}]}', 'archived', 'lora', 'fake-base', 'sha256:0000000000000000000000000000000000000000000000000000000000000000', 2, 512, '{}', '{"base":"fake-base","bytes":512,"companions":{"added_tokens":[],"chat_template":false,"defaults":{},"files":[],"stop_ids":[],"stop_token":null},"kind":"lora","ok":true,"problems":[],"rank":2,"tensors":[{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.q_proj","name":"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight","norm":0.23475459185897565,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.0.self_attn.v_proj","name":"base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight","norm":0.18696334834258274,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.0.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.q_proj","name":"base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight","norm":0.18454852415146394,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.q_proj","scale":2,"shape":[8,2],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight","norm":null,"part":"lora_A","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[2,8],"tokens":null,"used":true},{"bytes":64,"dtype":"F32","module":"model.layers.1.self_attn.v_proj","name":"base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight","norm":0.248311992959869,"part":"lora_B","rank":2,"reason":"low-rank change of model.layers.1.self_attn.v_proj","scale":2,"shape":[8,2],"tokens":null,"used":true}],"unused":[],"warnings":[]}', '2026-11-30T08:41:54.818421Z', 'local');
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.adapters
    ADD CONSTRAINT pk_adapters PRIMARY KEY (tenant, name);
ALTER TABLE ONLY public.aliases
    ADD CONSTRAINT pk_aliases PRIMARY KEY (tenant, adapter, alias);
ALTER TABLE ONLY public.evaluations
    ADD CONSTRAINT pk_evaluations PRIMARY KEY (tenant, adapter, sequence, number);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT pk_events PRIMARY KEY ("position");
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT pk_idempotency_keys PRIMARY KEY (tenant, key);
ALTER TABLE ONLY public.metrics
    ADD CONSTRAINT pk_metrics PRIMARY KEY (tenant, adapter, sequence, number, name);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT pk_versions PRIMARY KEY (tenant, adapter, sequence);
ALTER TABLE ONLY public.evaluations
    ADD CONSTRAINT uq_evaluations_tenant_adapter_sequence_supersedes UNIQUE (tenant, adapter, sequence, supersedes);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT uq_events_hash UNIQUE (hash);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT uq_events_previous UNIQUE (previous);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT uq_versions_tenant_adapter_digest UNIQUE (tenant, adapter, digest);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT uq_versions_tenant_adapter_semver UNIQUE (tenant, adapter, semver);
CREATE INDEX ix_events_tenant_subject_position ON public.events USING btree (tenant, subject, "position");
CREATE INDEX ix_idempotency_keys_created_at ON public.idempotency_keys USING btree (created_at);
CREATE INDEX ix_metrics_tenant_name_value ON public.metrics USING btree (tenant, name, value);
CREATE UNIQUE INDEX ix_versions_one_production ON public.versions USING btree (tenant, adapter) WHERE ((stage)::text = 'production'::text);
CREATE TRIGGER evaluations_frozen BEFORE UPDATE ON public.evaluations FOR EACH ROW EXECUTE FUNCTION public.graftwork_refuse('evaluations are append-only: add one that supersedes it');
CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE ON public.events FOR EACH ROW EXECUTE FUNCTION public.graftwork_refuse('events are append-only');
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.graftwork_refuse('events are append-only');
CREATE TRIGGER events_notify AFTER INSERT ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.graftwork_notify();
CREATE TRIGGER metrics_frozen BEFORE UPDATE ON public.metrics FOR EACH ROW EXECUTE FUNCTION public.graftwork_refuse('evaluations are append-only: add one that supersedes it');
CREATE TRIGGER versions_frozen BEFORE UPDATE OF tenant, adapter, sequence, semver, digest, manifest, kind, base, base_digest, rank, bytes, metadata, account, created_at, created_by ON public.versions FOR EACH ROW EXECUTE FUNCTION public.graftwork_refuse('a version is immutable but for its stage');
ALTER TABLE ONLY public.aliases
    ADD CONSTRAINT fk_aliases_versions FOREIGN KEY (tenant, adapter, sequence) REFERENCES public.versions(tenant, adapter, sequence);
ALTER TABLE ONLY public.evaluations
    ADD CONSTRAINT fk_evaluations_evaluations FOREIGN KEY (tenant, adapter, sequence, supersedes) REFERENCES public.evaluations(tenant, adapter, sequence, number);
ALTER TABLE ONLY public.evaluations
    ADD CONSTRAINT fk_evaluations_versions FOREIGN KEY (tenant, adapter, sequence) REFERENCES public.versions(tenant, adapter, sequence);
ALTER TABLE ONLY public.metrics
    ADD CONSTRAINT fk_metrics_evaluations FOREIGN KEY (tenant, adapter, sequence, number) REFERENCES public.evaluations(tenant, adapter, sequence, number);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT fk_versions_adapters FOREIGN KEY (tenant, adapter) REFERENCES public.adapters(tenant, name);
