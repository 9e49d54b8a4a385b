CREATE TABLE approval_requests (
	tenant TEXT COLLATE "C" NOT NULL,
	id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill TEXT COLLATE "C" DEFAULT '' NOT NULL,
	location TEXT COLLATE "C" DEFAULT '' NOT NULL,
	layer TEXT COLLATE "C" DEFAULT '' NOT NULL,
	environment TEXT COLLATE "C" DEFAULT '' NOT NULL,
	capabilities TEXT COLLATE "C" DEFAULT '' NOT NULL,
	"new" TEXT COLLATE "C" DEFAULT '' NOT NULL,
	scripts TEXT COLLATE "C" DEFAULT '' NOT NULL,
	requested_by TEXT COLLATE "C" DEFAULT '' NOT NULL,
	reason TEXT COLLATE "C" DEFAULT '' NOT NULL,
	status TEXT COLLATE "C" DEFAULT '' NOT NULL,
	created_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX approval_requests_pending ON approval_requests (tenant, digest, environment) WHERE status = 'pending';

CREATE TABLE approvals (
	tenant TEXT COLLATE "C" NOT NULL,
	id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	request TEXT COLLATE "C" DEFAULT '' NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill TEXT COLLATE "C" DEFAULT '' NOT NULL,
	location TEXT COLLATE "C" DEFAULT '' NOT NULL,
	layer TEXT COLLATE "C" DEFAULT '' NOT NULL,
	environment TEXT COLLATE "C" DEFAULT '' NOT NULL,
	grants TEXT COLLATE "C" DEFAULT '' NOT NULL,
	tools TEXT COLLATE "C" DEFAULT '' NOT NULL,
	decision TEXT COLLATE "C" DEFAULT '' NOT NULL,
	decided_by TEXT COLLATE "C" DEFAULT '' NOT NULL,
	reason TEXT COLLATE "C" DEFAULT '' NOT NULL,
	policy TEXT COLLATE "C" DEFAULT '' NOT NULL,
	rule TEXT COLLATE "C" DEFAULT '' NOT NULL,
	decided_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	expires_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	revoked_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	revoked_by TEXT COLLATE "C" DEFAULT '' NOT NULL,
	revoked_reason TEXT COLLATE "C" DEFAULT '' NOT NULL,
	fell_to TEXT COLLATE "C" DEFAULT '' NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE INDEX approvals_digest ON approvals (tenant, digest);

CREATE INDEX approvals_skill ON approvals (tenant, skill, location);

CREATE TABLE audit_checkpoints (
	tenant TEXT COLLATE "C" NOT NULL,
	seq BIGINT DEFAULT '0' NOT NULL,
	hash TEXT COLLATE "C" DEFAULT '' NOT NULL,
	signed_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	key_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	signature TEXT COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, seq, key_id),
	CONSTRAINT audit_checkpoints_counted CHECK (seq >= 1)
);

CREATE TABLE audit_log (
	tenant TEXT COLLATE "C" NOT NULL,
	seq BIGINT DEFAULT '0' NOT NULL,
	ts TEXT COLLATE "C" DEFAULT '' NOT NULL,
	event_type TEXT COLLATE "C" DEFAULT '' NOT NULL,
	actor_kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
	actor_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	env TEXT COLLATE "C" DEFAULT '' NOT NULL,
	session TEXT COLLATE "C" DEFAULT '' NOT NULL,
	trace_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill_ref TEXT COLLATE "C" DEFAULT '' NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	layer TEXT COLLATE "C" DEFAULT '' NOT NULL,
	point TEXT COLLATE "C" DEFAULT '' NOT NULL,
	outcome TEXT COLLATE "C" DEFAULT '' NOT NULL,
	rule_id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	policy_digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	data_json TEXT COLLATE "C" DEFAULT '' NOT NULL,
	prev_hash TEXT COLLATE "C" DEFAULT '' NOT NULL,
	hash TEXT COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, seq),
	CONSTRAINT audit_log_counted CHECK (seq >= 1)
);

CREATE INDEX audit_log_digest ON audit_log USING hash (digest);

CREATE INDEX audit_log_session ON audit_log USING hash (session);

CREATE TABLE blobs (
	sha256 TEXT COLLATE "C" NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (sha256)
);

CREATE TABLE blocks (
	tenant TEXT COLLATE "C" NOT NULL,
	kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
	value TEXT COLLATE "C" DEFAULT '' NOT NULL,
	reason TEXT COLLATE "C" DEFAULT '' NOT NULL,
	by TEXT COLLATE "C" DEFAULT '' NOT NULL,
	at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, kind, value)
);

CREATE TABLE generations (
	tenant TEXT COLLATE "C" NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant)
);

CREATE TABLE installs (
	tenant TEXT COLLATE "C" NOT NULL,
	location TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill TEXT COLLATE "C" DEFAULT '' NOT NULL,
	source TEXT COLLATE "C" DEFAULT '' NOT NULL,
	layer TEXT COLLATE "C" DEFAULT '' NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	state TEXT COLLATE "C" DEFAULT '' NOT NULL,
	by TEXT COLLATE "C" DEFAULT '' NOT NULL,
	at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, location)
);

CREATE TABLE people (
	tenant TEXT COLLATE "C" NOT NULL,
	name TEXT COLLATE "C" DEFAULT '' NOT NULL,
	kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
	roles TEXT COLLATE "C" DEFAULT '' NOT NULL,
	added_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, name)
);

CREATE TABLE policies (
	tenant TEXT COLLATE "C" NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	layer TEXT COLLATE "C" DEFAULT '' NOT NULL,
	path_hash TEXT COLLATE "C" DEFAULT '' NOT NULL,
	path TEXT COLLATE "C" DEFAULT '' NOT NULL,
	text TEXT COLLATE "C" DEFAULT '' NOT NULL,
	loaded_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, digest, layer, path_hash)
);

CREATE TABLE proposals (
	tenant TEXT COLLATE "C" NOT NULL,
	id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill TEXT COLLATE "C" DEFAULT '' NOT NULL,
	location TEXT COLLATE "C" DEFAULT '' NOT NULL,
	base_digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	proposed_digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	diff TEXT COLLATE "C" DEFAULT '' NOT NULL,
	justification TEXT COLLATE "C" DEFAULT '' NOT NULL,
	evidence TEXT COLLATE "C" DEFAULT '' NOT NULL,
	author_kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
	author TEXT COLLATE "C" DEFAULT '' NOT NULL,
	on_behalf_of TEXT COLLATE "C" DEFAULT '' NOT NULL,
	capabilities_new TEXT COLLATE "C" DEFAULT '' NOT NULL,
	status TEXT COLLATE "C" DEFAULT '' NOT NULL,
	reviewer TEXT COLLATE "C" DEFAULT '' NOT NULL,
	comment TEXT COLLATE "C" DEFAULT '' NOT NULL,
	created_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	decided_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	applied_digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	recommendations TEXT COLLATE "C" DEFAULT '' NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE TABLE revisions (
	tenant TEXT COLLATE "C" NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill TEXT COLLATE "C" DEFAULT '' NOT NULL,
	frontmatter TEXT COLLATE "C" DEFAULT '' NOT NULL,
	capabilities TEXT COLLATE "C" DEFAULT '' NOT NULL,
	declared TEXT COLLATE "C" DEFAULT '' NOT NULL,
	parent TEXT COLLATE "C" DEFAULT '' NOT NULL,
	first_seen TEXT COLLATE "C" DEFAULT '' NOT NULL,
	file_count BIGINT DEFAULT '0' NOT NULL,
	bytes BIGINT DEFAULT '0' NOT NULL,
	kept BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest)
);

CREATE TABLE scans (
	tenant TEXT COLLATE "C" NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	engine TEXT COLLATE "C" DEFAULT '' NOT NULL,
	engine_version TEXT COLLATE "C" DEFAULT '' NOT NULL,
	ruleset TEXT COLLATE "C" DEFAULT '' NOT NULL,
	status TEXT COLLATE "C" DEFAULT '' NOT NULL,
	max_severity TEXT COLLATE "C" DEFAULT '' NOT NULL,
	findings TEXT COLLATE "C" DEFAULT '' NOT NULL,
	at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	ms BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest, engine, number)
);

CREATE TABLE store_version (
	version SERIAL NOT NULL,
	PRIMARY KEY (version)
);

CREATE TABLE versions (
	tenant TEXT COLLATE "C" NOT NULL,
	location TEXT COLLATE "C" DEFAULT '' NOT NULL,
	skill TEXT COLLATE "C" DEFAULT '' NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	by TEXT COLLATE "C" DEFAULT '' NOT NULL,
	reason TEXT COLLATE "C" DEFAULT '' NOT NULL,
	proposal TEXT COLLATE "C" DEFAULT '' NOT NULL,
	at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, location, number)
);

CREATE INDEX versions_skill ON versions (tenant, skill);

CREATE TABLE revision_files (
	tenant TEXT COLLATE "C" NOT NULL,
	digest TEXT COLLATE "C" DEFAULT '' NOT NULL,
	path TEXT COLLATE "C" DEFAULT '' NOT NULL,
	sha256 TEXT COLLATE "C" DEFAULT '' NOT NULL,
	mode TEXT COLLATE "C" DEFAULT '' NOT NULL,
	kind TEXT COLLATE "C" DEFAULT '' NOT NULL,
	position BIGINT DEFAULT '0' NOT NULL,
	size BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest, position),
	FOREIGN KEY(tenant, digest) REFERENCES revisions (tenant, digest)
);

CREATE INDEX revision_files_sha256 ON revision_files (sha256);

CREATE TABLE tokens (
	tenant TEXT COLLATE "C" NOT NULL,
	id TEXT COLLATE "C" DEFAULT '' NOT NULL,
	person TEXT COLLATE "C" DEFAULT '' NOT NULL,
	label TEXT COLLATE "C" DEFAULT '' NOT NULL,
	secret_hash TEXT COLLATE "C" DEFAULT '' NOT NULL,
	parent TEXT COLLATE "C" DEFAULT '' NOT NULL,
	created_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	expires_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	revoked_at TEXT COLLATE "C" DEFAULT '' NOT NULL,
	number BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id),
	FOREIGN KEY(tenant, person) REFERENCES people (tenant, name)
);

CREATE UNIQUE INDEX tokens_secret_hash ON tokens (secret_hash);

CREATE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the audit log can only be added to'; END $$;

CREATE FUNCTION audit_log_in_order() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE last_seq bigint; last_hash text; BEGIN SELECT seq, hash INTO last_seq, last_hash FROM audit_log WHERE tenant = NEW.tenant ORDER BY seq DESC LIMIT 1; IF NEW.seq IS DISTINCT FROM 1 + coalesce(last_seq, 0) OR NEW.prev_hash IS DISTINCT FROM coalesce(last_hash, '0000000000000000000000000000000000000000000000000000000000000000') THEN RAISE EXCEPTION 'the audit log can only be added to'; END IF; RETURN NEW; END $$;

CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_refuse();

CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse();

CREATE TRIGGER audit_log_in_order BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_in_order();

