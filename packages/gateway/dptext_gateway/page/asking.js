// How the page asks the gateway. The key and the originals are in variables of this tab and nowhere else.
"use strict";

const AGAIN = [408, 409, 429, 502, 503, 504]; // statuses to retry, as in the Python client
const pending = new Map(); // idempotency keys of requests, by content, until the answer has come
const charged = new Map(); // what this tab had charged, by the same content: its time, and its job if it is one
const orphans = new Map(Object.entries(sessionStorage)); // keys of what a reload cut, by path: random, nothing else
const STATES = { queued: "waits", running: "is running", cancelling: "is being cancelled", done: "is done",
  cancelled: "is cancelled", failed: "has failed", expired: "has expired" };
let patience = 600; // seconds; an attempt that died blocks the next for one minute
let key = "", me = {}, models = [], answer = null, watching = "", balance = null, price = null, sending = 0;
let unsaved = false; // a release is shown that was not downloaded

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").className = bad ? "bad" : "";
}

// What is scrolled to is not under the status, however many lines that has.
new ResizeObserver(() => {
  document.documentElement.style.scrollPaddingTop = `${Math.max(64, $("status").offsetHeight + 16)}px`;
}).observe($("status"));

const may = (...scopes) => scopes.some((each) => me.scopes.includes(each));
const chosen = () => models.find((each) => each.name === $("model").value);
const number = (text) => Number(String(text).replaceAll(",", "")) || 0;
const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const acting = (task) => (event) => task(event).catch((error) => say(error.message, true));

// Whether a proxy answered with its page to sign in: the gateway redirects nobody, refuses in JSON, and sends HTML only
// as a download.
function strange(found) {
  const kind = found.headers.get("Content-Type") || "", saved = found.headers.has("Content-Disposition");
  return found.type === "opaqueredirect" || (found.ok && kind.includes("html") && !saved) ||
    ([401, 403].includes(found.status) && !kind.includes("json"));
}

// A `fetch` that tells how much of a file was sent.
function sent(path, { method, headers, body }) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open(method, path);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => { $("sent").value = event.loaded / event.total; };
    request.onerror = failed;
    request.onload = () => {
      const given = ["Content-Type", "Retry-After"].map((name) => [name, request.getResponseHeader(name) || ""]);
      done(new Response(request.response, { status: request.status, headers: given }));
    };
    request.send(body);
  });
}

async function ask(path, options = {}) {
  const headers = { ...(key && { Authorization: `Bearer ${key}` }), ...options.headers };
  // A proxy with single sign-on knows its visitor by a cookie. Pages elsewhere release nothing by it: Idempotency-Key,
  // like Authorization, is a header for which a browser asks the gateway first, which lets none.
  let found;
  try {
    found = await (options.body instanceof File ? sent(path, { ...options, headers }) : fetch(path,
      { ...options, headers, cache: "no-store", credentials: "same-origin", redirect: "manual" }));
  } catch {
    throw new Error("The gateway cannot be reached.");
  }
  if (strange(found)) {
    throw new Error("Your session with the proxy has ended. Open this address in another tab and sign in.");
  }
  if (found.ok) return found;
  const said = await found.json().catch(() => ({}));
  let detail = said.detail || `It failed (${found.status}).`;
  if (said.asked) detail += " Take a model that costs less, or ask your administrator for another account.";
  if (found.status === 401) {
    $("signed-in").hidden = $("sign-out").hidden = true;
    $("sign-in").hidden = false;
    detail = "This key is wrong, has expired or was revoked. Ask your administrator for one.";
  }
  throw Object.assign(new Error(detail),
    { status: found.status, kind: said.type, wait: number(found.headers.get("Retry-After")) });
}

const told = async (path) => (await ask(path)).json();

function fresh() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (each) => each.toString(16).padStart(2, "0")).join("");
}

const minute = (seconds) => `${new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ")} UTC`;
const contentOf = (path, payload) => `${path}\n${payload}`;

// What became of a job, in words.
async function endOf(id) {
  try {
    const job = await told(`/v1/jobs/${id}`);
    return `Its job ${STATES[job.state]}. ${job.problem || ""}`.trim();
  } catch (error) {
    if ([404, 410].includes(error.status)) return "Its job is gone.";
    throw error;
  }
}

// Whether to send what this tab had charged before. Only the person at the page knows whether another charge is meant: a
// request whose answer was lost has its own key, and asks nobody.
async function meant(path, payload, name) {
  const what = `${me.account}\n${contentOf(path, payload)}`, before = charged.get(what), box = $("again");
  if (!before || pending.has(contentOf(path, payload))) return true;
  const end = before.id ? await endOf(before.id) : "What left was shown here.";
  if (box.open) return false; // a second press, before this one was answered
  const cost = price ? `: epsilon ${price.epsilon} per ${me.unit}` : "";
  $("again-said").textContent = `${name} was sent with these settings at ${minute(before.created)}. ${end} ` +
    `Sent again it has a charge of its own${cost}.`;
  $("again-job").hidden = !before.id;
  box.returnValue = "";
  box.showModal();
  await new Promise((done) => box.addEventListener("close", done, { once: true }));
  if (box.returnValue === "send") return true;
  say(`${name} was not sent again. No charge.`);
  if (box.returnValue === "job") {
    location.hash = before.id;
    if (watching === before.id) $("job-title").focus();
  }
  return false;
}

// If anything fails, the same request is sent again under its own key, and is charged once: by itself for `patience`
// seconds, and after that whenever the button is pressed again, even after a reload.
async function insist(path, payload, options) {
  const what = contentOf(path, payload), place = path.split("?")[0];
  if (!pending.has(what)) pending.set(what, orphans.get(place) || fresh());
  orphans.delete(place);
  const end = Date.now() + 1000 * patience;
  sending++;
  try {
    for (let pause = 1; ; pause = Math.min(2 * pause, 30)) {
      sessionStorage.setItem(place, pending.get(what));
      const headers = { ...options.headers, "Idempotency-Key": pending.get(what) };
      try {
        const found = await (await ask(path, { ...options, method: "POST", headers })).json();
        pending.delete(what);
        sessionStorage.removeItem(place);
        charged.set(`${me.account}\n${what}`, { id: found.id, created: found.created ?? Date.now() / 1000 });
        return found;
      } catch (error) {
        if (error.kind === "urn:dptext:idempotency-key-reused") {
          pending.set(what, fresh()); // the key belonged to another request, before a reload or of a changed file
          continue;
        }
        if (error.kind === "urn:dptext:answer-expired") { // the tab slept for days: the next press pays anew
          pending.delete(what);
          sessionStorage.removeItem(place);
        }
        if (error.status && !AGAIN.includes(error.status)) throw error;
        const wait = error.wait || pause;
        if (Date.now() + 1000 * wait > end) {
          throw new Error(`${error.message} Press the button again: it is charged once.`);
        }
        say(`${error.message} It is asked for again.`, true);
        await sleep(wait);
      }
    }
  } finally {
    sending--;
  }
}

window.addEventListener("beforeunload", (event) => { if (sending || unsaved) event.preventDefault(); });
