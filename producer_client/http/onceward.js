// Sends an action of a page once, and follows it to its end (docs: A form that cannot pay twice).
const running = new Map();
const write = (name, entry) => sessionStorage.setItem("onceward:" + name, JSON.stringify(entry));

/** What this tab knows of an action: null, an open one, or one with its `end`. */
export const known = (name) => JSON.parse(sessionStorage.getItem("onceward:" + name));

/** Refused, as `problem` says. `open`: an earlier try may have been accepted. */
export class Refused extends Error {
  constructor(problem, open) {
    super(problem?.title);
    Object.assign(this, { problem, open });
  }
}

/** Let a new action have this name; the last one must have ended. */
export function forget(name) {
  if (!known(name)?.end) throw Error(name + " is open");
  sessionStorage.removeItem("onceward:" + name);
}

/** Send a JSON value, unless this action was begun already, and follow it. `key`: of all tabs; by
 * default each makes its own. */
export function submit(name, url, value, options) {
  // Stored first: a page that dies sends the same again.
  const key = options?.key ?? crypto.randomUUID();
  if (!known(name)) write(name, { key, url, body: JSON.stringify(value) });
  return follow(name, options);
}

/** Resolve with the final status. onStatus(status) is told each, and UNREACHABLE while nobody
 * answers; headers() gives headers such as Authorization. */
export function follow(name, options) {
  if (!running.has(name))
    running.set(name, toEnd(name, { ...options }).finally(() => running.delete(name)));
  return running.get(name);
}

async function toEnd(name, { onStatus, headers }) {
  const entry = known(name);
  const tell = (status) => (onStatus?.(status), status.final && status);
  const away = () => tell({ state: "UNREACHABLE" });
  let end = entry.end && tell(entry.end);
  while (!end) {
    end = !entry.self && (await send(name, entry, headers, tell, away));
    end ||= (await stream(entry.events, tell, away)) || (await poll(entry.self, headers, tell, away));
    // The read token is too old: a repeat under the key gives a new one.
    entry.self = "";
  }
  // A doubt stays open: it may be resolved, and nobody pays again.
  if (end.state != "IN_DOUBT") write(name, { end });
  return end;
}

async function send(name, entry, headers, tell, away) {
  for (let wait = 1; ; wait = Math.min(2 * wait, 30)) {
    const open = entry.sent;
    entry.sent = true;
    write(name, entry);
    const { status, body, after } = await ask(entry.url, headers, {
      method: "POST",
      body: entry.body,
      headers: { "Content-Type": "application/json", "Idempotency-Key": `"${entry.key}"` },
    });
    if (status < 300 && body?.links) {
      const at = (link) => new URL(link, new URL(entry.url, location)).href;
      entry.events = at(body.links.events);
      entry.self = at(body.links.self + (body.read_token ? "?token=" + body.read_token : ""));
      write(name, entry);
      return tell(body);
    }
    if (status >= 400 && status < 500 && status != 429) {
      if (!open) sessionStorage.removeItem("onceward:" + name);
      throw new Refused(body, open);
    }
    away();
    await pause(after || wait);
  }
}

function stream(url, tell, away) {
  return new Promise((done) => {
    const source = new EventSource(url);
    const stop = (end) => (clearTimeout(late), source.close(), done(end));
    // The first event comes at once, unless something holds it back. A silent one may be cut off.
    let late = setTimeout(stop, 5000);
    source.addEventListener("status", ({ data }) => {
      clearTimeout(late);
      late = setTimeout(stop, 30000);
      const end = tell(JSON.parse(data));
      if (end) stop(end);
    });
    source.onerror = () => (source.readyState == 2 ? stop() : away());
  });
}

async function poll(url, headers, tell, away) {
  for (;;) {
    const { status, body, after } = await ask(url, headers);
    if (status > 400 && status < 405) return pause(2);
    const end = status == 200 && body ? tell(body) : away();
    if (end) return end;
    await pause(after || 2);
  }
}

async function ask(url, headers, init) {
  try {
    const all = { ...init?.headers, ...(await headers?.()) };
    const signal = AbortSignal.timeout(30000);
    const answer = await fetch(url, { ...init, headers: all, signal, cache: "no-store" });
    const after = +answer.headers.get("Retry-After");
    return { status: answer.status, body: await answer.json().catch(() => null), after };
  } catch {
    return {};
  }
}

const pause = (seconds) =>
  new Promise((done) => {
    setTimeout(done, 1000 * seconds);
    addEventListener("online", done, { once: true });
  });
