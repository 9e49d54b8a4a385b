// An OpenID provider on a free port of this machine, for tests. Its accounts are told to it, and so is what it gets wrong.
//
// POST /test/accounts {login: claims}, /test/alter {"claims": {...}, "header": {...}}, /test/rotate {"keep": bool},
// /test/page with one more address that browsers are sent back to.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { SignJWT, decodeJwt, importJWK } from "jose";
import Provider from "oidc-provider";

const accounts = {};
let altered = null;
let keys = [];
const fetches = {};
let handle;

function newKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: `key-${keys.length + 1}-${Date.now()}`, alg: "RS256", use: "sig" };
}

async function alter(idToken) {
  const claims = { ...decodeJwt(idToken), ...altered.claims };
  for (const [name, value] of Object.entries(claims)) if (value === null) delete claims[name];
  const header = { alg: "RS256", kid: keys[0].kid, ...altered.header };
  if (header.alg === "none") {
    const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
    return `${part(header)}.${part(claims)}.`;
  }
  // With a symmetric algorithm, the secret is what everybody knows: the modulus of the public key.
  const key = header.alg.startsWith("HS") ? Buffer.from(keys[0].n) : await importJWK(altered.key ?? keys[0], header.alg);
  return new SignJWT(claims).setProtectedHeader(header).sign(key, { crit: { "urn:example": true } });
}

function begin(issuer, redirectUris) {
  const client = { token_endpoint_auth_method: "none", grant_types: ["authorization_code"], response_types: ["code"] };
  const device = "urn:ietf:params:oauth:grant-type:device_code";
  const provider = new Provider(issuer, {
    clients: [
      { ...client, client_id: "metier", redirect_uris: redirectUris },
      {
        ...client,
        client_id: "metier-secret",
        client_secret: "a secret of the web client",
        token_endpoint_auth_method: "client_secret_basic",
        redirect_uris: redirectUris,
      },
      {
        ...client,
        client_id: "metier-cli",
        application_type: "native",
        grant_types: [device],
        response_types: [],
        redirect_uris: [],
      },
    ],
    jwks: { keys },
    cookies: { keys: ["a secret of these tests"] },
    claims: { email: ["email", "email_verified"], groups: ["groups"], profile: ["name"] },
    conformIdTokenClaims: process.env.OIDC_CONFORM === "1",
    features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
    pkce: { required: () => true },
    findAccount: (ctx, id) => accounts[id] && { accountId: id, claims: () => ({ sub: id, ...accounts[id] }) },
    async loadExistingGrant(ctx) {
      const grant = new ctx.oidc.provider.Grant({
        accountId: ctx.oidc.session.accountId,
        clientId: ctx.oidc.client.clientId,
      });
      grant.addOIDCScope(ctx.oidc.params.scope);
      await grant.save();
      return grant;
    },
  });
  provider.use(async (ctx, next) => {
    await next();
    if (altered?.keys && ctx.path === "/jwks") ctx.body = { keys: [...altered.keys, ...ctx.body.keys] };
    if (altered?.claims && ctx.path === "/token" && ctx.body?.id_token) ctx.body.id_token = await alter(ctx.body.id_token);
  });
  handle = provider.callback();
}

async function control(path, body, issuer, redirectUris) {
  if (path === "/test/accounts") Object.assign(accounts, body);
  if (path === "/test/alter") altered = body;
  if (path === "/test/page") begin(issuer, [...redirectUris, body]);
  if (path === "/test/rotate") {
    keys = [newKey(), ...(body.keep ? keys : [])];
    begin(issuer, redirectUris);
  }
}

const server = createServer(async (request, response) => {
  if (!request.url.startsWith("/test/")) {
    fetches[request.url] = (fetches[request.url] ?? 0) + 1;
    return handle(request, response);
  }
  if (request.method === "GET") return response.end(String(fetches[request.url.slice("/test/fetches".length)] ?? 0));
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const issuer = `http://127.0.0.1:${server.address().port}`;
  await control(request.url, JSON.parse(Buffer.concat(pieces)), issuer, process.argv.slice(2));
  response.end("{}");
});
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  keys = [newKey()];
  begin(issuer, process.argv.slice(2));
  process.stdout.write(`${issuer}\n`);
});
// It ends with whoever started it.
process.stdin.on("end", () => process.exit(0)).resume();
