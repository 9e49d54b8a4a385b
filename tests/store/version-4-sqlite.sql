CREATE TABLE approval_requests (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	location TEXT DEFAULT '' NOT NULL,
	layer TEXT DEFAULT '' NOT NULL,
	environment TEXT DEFAULT '' NOT NULL,
	capabilities TEXT DEFAULT '' NOT NULL,
	new TEXT DEFAULT '' NOT NULL,
	scripts TEXT DEFAULT '' NOT NULL,
	requested_by TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	created_at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX approval_requests_pending ON approval_requests (tenant, digest, environment) WHERE status = 'pending';

CREATE TABLE approvals (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	request TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	location TEXT DEFAULT '' NOT NULL,
	layer TEXT DEFAULT '' NOT NULL,
	environment TEXT DEFAULT '' NOT NULL,
	grants TEXT DEFAULT '' NOT NULL,
	tools TEXT DEFAULT '' NOT NULL,
	decision TEXT DEFAULT '' NOT NULL,
	decided_by TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	policy TEXT DEFAULT '' NOT NULL,
	rule TEXT DEFAULT '' NOT NULL,
	decided_at TEXT DEFAULT '' NOT NULL,
	expires_at TEXT DEFAULT '' NOT NULL,
	revoked_at TEXT DEFAULT '' NOT NULL,
	revoked_by TEXT DEFAULT '' NOT NULL,
	revoked_reason TEXT DEFAULT '' NOT NULL,
	fell_to TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE INDEX approvals_digest ON approvals (tenant, digest);

CREATE INDEX approvals_skill ON approvals (tenant, skill, location);

CREATE TABLE audit_checkpoints (
	tenant TEXT NOT NULL,
	seq INTEGER DEFAULT '0' NOT NULL,
	hash TEXT DEFAULT '' NOT NULL,
	signed_at TEXT DEFAULT '' NOT NULL,
	key_id TEXT DEFAULT '' NOT NULL,
	signature TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, seq, key_id),
	CONSTRAINT audit_checkpoints_counted CHECK (typeof(seq) = 'integer' AND seq >= 1)
)
 WITHOUT ROWID;

CREATE TABLE audit_log (
	tenant TEXT NOT NULL,
	seq INTEGER DEFAULT '0' NOT NULL,
	ts TEXT DEFAULT '' NOT NULL,
	event_type TEXT DEFAULT '' NOT NULL,
	actor_kind TEXT DEFAULT '' NOT NULL,
	actor_id TEXT DEFAULT '' NOT NULL,
	env TEXT DEFAULT '' NOT NULL,
	session TEXT DEFAULT '' NOT NULL,
	trace_id TEXT DEFAULT '' NOT NULL,
	skill_ref TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	layer TEXT DEFAULT '' NOT NULL,
	point TEXT DEFAULT '' NOT NULL,
	outcome TEXT DEFAULT '' NOT NULL,
	rule_id TEXT DEFAULT '' NOT NULL,
	policy_digest TEXT DEFAULT '' NOT NULL,
	data_json TEXT DEFAULT '' NOT NULL,
	prev_hash TEXT DEFAULT '' NOT NULL,
	hash TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, seq),
	CONSTRAINT audit_log_counted CHECK (typeof(seq) = 'integer' AND seq >= 1)
)
 WITHOUT ROWID;

CREATE INDEX audit_log_digest ON audit_log (digest);

CREATE INDEX audit_log_session ON audit_log (session);

CREATE TABLE blocks (
	tenant TEXT NOT NULL,
	kind TEXT DEFAULT '' NOT NULL,
	value TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, kind, value)
)
 WITHOUT ROWID;

CREATE TABLE deliveries (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	webhook TEXT DEFAULT '' NOT NULL,
	event TEXT DEFAULT '' NOT NULL,
	payload TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	attempts INTEGER DEFAULT '0' NOT NULL,
	next_at TEXT DEFAULT '' NOT NULL,
	gives_up_at TEXT DEFAULT '' NOT NULL,
	response TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (status, next_at);

CREATE INDEX deliveries_webhook ON deliveries (tenant, webhook, at);

CREATE TABLE deployments (
	tenant TEXT NOT NULL,
	name TEXT DEFAULT '' NOT NULL,
	namespace TEXT DEFAULT '' NOT NULL,
	version TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, name)
)
 WITHOUT ROWID;

CREATE TABLE feedback (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	helped INTEGER DEFAULT '0' NOT NULL,
	comment TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	agent TEXT DEFAULT '' NOT NULL,
	session TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE INDEX feedback_skill ON feedback (tenant, skill);

CREATE TABLE generations (
	tenant TEXT NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant)
)
 WITHOUT ROWID;

CREATE TABLE idempotency (
	tenant TEXT NOT NULL,
	person TEXT DEFAULT '' NOT NULL,
	idempotency_key TEXT DEFAULT '' NOT NULL,
	request TEXT DEFAULT '' NOT NULL,
	status INTEGER DEFAULT '0' NOT NULL,
	answer TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, person, idempotency_key)
)
 WITHOUT ROWID;

CREATE TABLE installs (
	tenant TEXT NOT NULL,
	location TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	source TEXT DEFAULT '' NOT NULL,
	layer TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	state TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, location)
)
 WITHOUT ROWID;

CREATE TABLE namespaces (
	tenant TEXT NOT NULL,
	name TEXT DEFAULT '' NOT NULL,
	owners TEXT DEFAULT '' NOT NULL,
	criteria TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, name)
)
 WITHOUT ROWID;

CREATE TABLE node_records (
	tenant TEXT NOT NULL,
	node TEXT DEFAULT '' NOT NULL,
	chain TEXT DEFAULT '' NOT NULL,
	epoch INTEGER DEFAULT '0' NOT NULL,
	seq INTEGER DEFAULT '0' NOT NULL,
	ts TEXT DEFAULT '' NOT NULL,
	event_type TEXT DEFAULT '' NOT NULL,
	actor_kind TEXT DEFAULT '' NOT NULL,
	actor_id TEXT DEFAULT '' NOT NULL,
	env TEXT DEFAULT '' NOT NULL,
	session TEXT DEFAULT '' NOT NULL,
	trace_id TEXT DEFAULT '' NOT NULL,
	skill_ref TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	layer TEXT DEFAULT '' NOT NULL,
	point TEXT DEFAULT '' NOT NULL,
	outcome TEXT DEFAULT '' NOT NULL,
	rule_id TEXT DEFAULT '' NOT NULL,
	policy_digest TEXT DEFAULT '' NOT NULL,
	data_json TEXT DEFAULT '' NOT NULL,
	prev_hash TEXT DEFAULT '' NOT NULL,
	hash TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, node, chain, epoch, seq),
	CONSTRAINT node_records_counted CHECK (typeof(seq) = 'integer' AND seq >= 1)
)
 WITHOUT ROWID;

CREATE INDEX node_records_ts ON node_records (tenant, ts);

CREATE INDEX node_records_digest ON node_records (digest);

CREATE INDEX node_records_session ON node_records (session);

CREATE TABLE nodes (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	name TEXT DEFAULT '' NOT NULL,
	person TEXT DEFAULT '' NOT NULL,
	platform TEXT DEFAULT '' NOT NULL,
	registered_at TEXT DEFAULT '' NOT NULL,
	last_seen_at TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	fault TEXT DEFAULT '' NOT NULL,
	fault_at INTEGER DEFAULT '0' NOT NULL,
	epoch INTEGER DEFAULT '0' NOT NULL,
	inventory TEXT DEFAULT '' NOT NULL,
	inventory_at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE TABLE people (
	tenant TEXT NOT NULL,
	name TEXT DEFAULT '' NOT NULL,
	kind TEXT DEFAULT '' NOT NULL,
	roles TEXT DEFAULT '' NOT NULL,
	added_at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, name)
)
 WITHOUT ROWID;

CREATE TABLE policies (
	tenant TEXT NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	layer TEXT DEFAULT '' NOT NULL,
	path_hash TEXT DEFAULT '' NOT NULL,
	path TEXT DEFAULT '' NOT NULL,
	text TEXT DEFAULT '' NOT NULL,
	loaded_at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, digest, layer, path_hash)
)
 WITHOUT ROWID;

CREATE TABLE policy_versions (
	tenant TEXT NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	text TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, number)
)
 WITHOUT ROWID;

CREATE TABLE proposals (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	kind TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	location TEXT DEFAULT '' NOT NULL,
	base_digest TEXT DEFAULT '' NOT NULL,
	proposed_digest TEXT DEFAULT '' NOT NULL,
	diff TEXT DEFAULT '' NOT NULL,
	justification TEXT DEFAULT '' NOT NULL,
	evidence TEXT DEFAULT '' NOT NULL,
	author_kind TEXT DEFAULT '' NOT NULL,
	author TEXT DEFAULT '' NOT NULL,
	on_behalf_of TEXT DEFAULT '' NOT NULL,
	capabilities_new TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	reviewer TEXT DEFAULT '' NOT NULL,
	comment TEXT DEFAULT '' NOT NULL,
	created_at TEXT DEFAULT '' NOT NULL,
	decided_at TEXT DEFAULT '' NOT NULL,
	applied_digest TEXT DEFAULT '' NOT NULL,
	recommendations TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE TABLE releases (
	tenant TEXT NOT NULL,
	namespace TEXT DEFAULT '' NOT NULL,
	name TEXT DEFAULT '' NOT NULL,
	version TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	archive_digest TEXT DEFAULT '' NOT NULL,
	archive_size INTEGER DEFAULT '0' NOT NULL,
	description TEXT DEFAULT '' NOT NULL,
	facts TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	decided_by TEXT DEFAULT '' NOT NULL,
	decided_at TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	criteria TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, namespace, name, version)
)
 WITHOUT ROWID;

CREATE INDEX releases_name ON releases (tenant, name);

CREATE INDEX releases_number ON releases (tenant, number);

CREATE INDEX releases_status ON releases (tenant, status);

CREATE TABLE revisions (
	tenant TEXT NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	frontmatter TEXT DEFAULT '' NOT NULL,
	capabilities TEXT DEFAULT '' NOT NULL,
	declared TEXT DEFAULT '' NOT NULL,
	parent TEXT DEFAULT '' NOT NULL,
	first_seen TEXT DEFAULT '' NOT NULL,
	file_count INTEGER DEFAULT '0' NOT NULL,
	bytes INTEGER DEFAULT '0' NOT NULL,
	kept INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest)
)
 WITHOUT ROWID;

CREATE TABLE scans (
	tenant TEXT NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	engine TEXT DEFAULT '' NOT NULL,
	engine_version TEXT DEFAULT '' NOT NULL,
	ruleset TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	max_severity TEXT DEFAULT '' NOT NULL,
	findings TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	ms INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest, engine, number)
)
 WITHOUT ROWID;

CREATE TABLE test_results (
	tenant TEXT NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	tier TEXT DEFAULT '' NOT NULL,
	verdict TEXT DEFAULT '' NOT NULL,
	score INTEGER DEFAULT '0' NOT NULL,
	runner TEXT DEFAULT '' NOT NULL,
	suite TEXT DEFAULT '' NOT NULL,
	cases INTEGER DEFAULT '0' NOT NULL,
	passed INTEGER DEFAULT '0' NOT NULL,
	failed INTEGER DEFAULT '0' NOT NULL,
	report TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest, tier, number)
)
 WITHOUT ROWID;

CREATE TABLE used_once (
	tenant TEXT NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	expires_at TEXT DEFAULT '' NOT NULL,
	PRIMARY KEY (tenant, digest)
)
 WITHOUT ROWID;

CREATE TABLE usage_cursor (
	tenant TEXT NOT NULL,
	seq INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant)
)
 WITHOUT ROWID;

CREATE TABLE usage_days (
	tenant TEXT NOT NULL,
	day TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	agent TEXT DEFAULT '' NOT NULL,
	model TEXT DEFAULT '' NOT NULL,
	loads INTEGER DEFAULT '0' NOT NULL,
	calls INTEGER DEFAULT '0' NOT NULL,
	refusals INTEGER DEFAULT '0' NOT NULL,
	failures INTEGER DEFAULT '0' NOT NULL,
	runs INTEGER DEFAULT '0' NOT NULL,
	searches INTEGER DEFAULT '0' NOT NULL,
	empty_searches INTEGER DEFAULT '0' NOT NULL,
	helped INTEGER DEFAULT '0' NOT NULL,
	not_helped INTEGER DEFAULT '0' NOT NULL,
	tokens_in INTEGER DEFAULT '0' NOT NULL,
	tokens_out INTEGER DEFAULT '0' NOT NULL,
	cost INTEGER DEFAULT '0' NOT NULL,
	unpriced INTEGER DEFAULT '0' NOT NULL,
	duration INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, day, skill, agent, model)
)
 WITHOUT ROWID;

CREATE TABLE usage_pairs (
	tenant TEXT NOT NULL,
	month TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	other TEXT DEFAULT '' NOT NULL,
	loads INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, month, skill, other)
)
 WITHOUT ROWID;

CREATE TABLE usage_searches (
	tenant TEXT NOT NULL,
	day TEXT DEFAULT '' NOT NULL,
	query TEXT DEFAULT '' NOT NULL,
	times INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, day, query)
)
 WITHOUT ROWID;

CREATE TABLE versions (
	tenant TEXT NOT NULL,
	location TEXT DEFAULT '' NOT NULL,
	skill TEXT DEFAULT '' NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	proposal TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, location, number)
)
 WITHOUT ROWID;

CREATE INDEX versions_skill ON versions (tenant, skill);

CREATE TABLE webhooks (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	url TEXT DEFAULT '' NOT NULL,
	form TEXT DEFAULT '' NOT NULL,
	events TEXT DEFAULT '' NOT NULL,
	secret TEXT DEFAULT '' NOT NULL,
	credential TEXT DEFAULT '' NOT NULL,
	people TEXT DEFAULT '' NOT NULL,
	status TEXT DEFAULT '' NOT NULL,
	cursor INTEGER DEFAULT '0' NOT NULL,
	"by" TEXT DEFAULT '' NOT NULL,
	at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id)
)
 WITHOUT ROWID;

CREATE TABLE revision_files (
	tenant TEXT NOT NULL,
	digest TEXT DEFAULT '' NOT NULL,
	path TEXT DEFAULT '' NOT NULL,
	sha256 TEXT DEFAULT '' NOT NULL,
	mode TEXT DEFAULT '' NOT NULL,
	kind TEXT DEFAULT '' NOT NULL,
	position INTEGER DEFAULT '0' NOT NULL,
	size INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, digest, position),
	FOREIGN KEY(tenant, digest) REFERENCES revisions (tenant, digest)
)
 WITHOUT ROWID;

CREATE INDEX revision_files_sha256 ON revision_files (sha256);

CREATE TABLE tokens (
	tenant TEXT NOT NULL,
	id TEXT DEFAULT '' NOT NULL,
	person TEXT DEFAULT '' NOT NULL,
	label TEXT DEFAULT '' NOT NULL,
	secret_hash TEXT DEFAULT '' NOT NULL,
	parent TEXT DEFAULT '' NOT NULL,
	created_at TEXT DEFAULT '' NOT NULL,
	expires_at TEXT DEFAULT '' NOT NULL,
	revoked_at TEXT DEFAULT '' NOT NULL,
	number INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (tenant, id),
	FOREIGN KEY(tenant, person) REFERENCES people (tenant, name)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX tokens_secret_hash ON tokens (secret_hash);

CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;

CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;

CREATE TRIGGER audit_log_in_order BEFORE INSERT ON audit_log WHEN NEW.seq IS NOT 1 + coalesce((SELECT seq FROM audit_log WHERE tenant = NEW.tenant ORDER BY seq DESC LIMIT 1), 0) OR NEW.prev_hash IS NOT coalesce((SELECT hash FROM audit_log WHERE tenant = NEW.tenant ORDER BY seq DESC LIMIT 1), '0000000000000000000000000000000000000000000000000000000000000000') BEGIN SELECT RAISE(ABORT, 'the audit log can only be added to'); END;

