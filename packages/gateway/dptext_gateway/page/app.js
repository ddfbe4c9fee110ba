// The page of the gateway. The key and the originals are in variables of this tab and nowhere else.
"use strict";

const AGAIN = [408, 409, 429, 502, 503, 504]; // statuses to retry, as in the Python client
const pending = new Map(); // idempotency keys of requests, by content, until the answer has come
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

// If anything fails, the same request is sent again under its own key, and is charged once: by itself for `patience`
// seconds, and after that whenever the button is pressed again, even after a reload.
async function insist(path, payload, options) {
  const what = `${path}\n${payload}`, place = path.split("?")[0];
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

function drawBudget() {
  const whole = balance.epsilon, spent = number(balance.spent) / whole;
  const next = price && balance.name === me.account ? number(price.epsilon) / whole : 0;
  const text = document.createElement("p");
  text.textContent = `Account ${balance.name}, per ${balance.unit}: epsilon ${balance.spent} of ${whole} spent, ` +
    `${balance.left} left, in ${balance.charges} charge${balance.charges === 1 ? "" : "s"}.` +
    (next ? " The light part is one release more." : "");
  const label = `Spent ${balance.spent} of ${whole}` + (next ? `; one release more costs ${price.epsilon}` : "");
  $("budget").replaceChildren(bar(label, [[0, spent, "spent"], [spent, next, "next"]]), text);
}

async function showBudget() {
  if (!may("accounts", "admin")) {
    $("budget").textContent = me.account ? `Account ${me.account}, per ${me.unit}, pays.` : "This key has no account.";
    $("history").hidden = true;
    return;
  }
  const names = (await told("/v1/accounts")).map((each) => each.name);
  const name = $("account").value || (names.includes(me.account) ? me.account : names[0]);
  $("account-box").hidden = names.length < 2;
  $("account").replaceChildren(...names.map((each) => new Option(each, each, false, each === name)));
  $("history").hidden = !name;
  if (!name) { $("budget").textContent = "There is no account yet."; return; }
  balance = await told(`/v1/accounts/${encodeURIComponent(name)}`);
  drawBudget();
  $("charges").replaceChildren(...balance.log.map((each) => {
    const row = document.createElement("tr");
    const state = each.release_mark ? "released" : "nothing visible";
    for (const text of [each.number, `${each.at.slice(0, 16).replace("T", " ")} UTC`, each.kind, each.epsilon, state]) {
      cell(row, text);
    }
    return row;
  }));
}

// The jobs of the account that are still known, newest first, so that nobody has to keep their addresses.
async function showJobs() {
  if (!may("jobs", "synthesize")) return;
  const found = await told("/v1/jobs");
  $("jobs").hidden = !found.length;
  $("jobs-list").replaceChildren(...found.map((each) => {
    const row = document.createElement("tr"), link = document.createElement("a");
    link.href = `#${each.id}`;
    link.textContent = `${new Date(1000 * each.created).toISOString().slice(0, 16).replace("T", " ")} UTC`;
    cell(row, "").append(link);
    cell(row, each.model);
    cell(row, STATES[each.state]);
    return row;
  }));
}

async function showModel() {
  const found = chosen();
  $("use").hidden = !found;
  if (!found) return;
  const corpus = found.answers === "a corpus", author = me.unit === "author";
  $("sentence").textContent = found.sentence;
  $("words").textContent = found.words.join("\n\n");
  $("few").hidden = corpus || !may("privatize");
  $("whole").hidden = !may(corpus ? "synthesize" : "jobs") ||
    (corpus && !found.guarantees.some((each) => each.unit === me.unit));
  $("label-box").hidden = !found.labels.length;
  $("label").replaceChildren(...found.labels.map((each) => new Option(each, each)));
  $("most-box").hidden = corpus || !author;
  $("author-box").hidden = $("author-field-box").hidden = !author;
  $("author").required = $("author-field").required = author;
  $("label-field").required = found.reads_labels;
  $("label-field").placeholder = found.reads_labels ? "label" : "none";
  price = null;
  if (author && !corpus && !$("most").checkValidity()) {
    $("cost").textContent = "Say how many texts one author has at most: a whole number from 1.";
    return;
  }
  try {
    price = await told(`/v1/models/${encodeURIComponent(found.name)}/cost?${new URLSearchParams(most(found))}`);
    $("cost").textContent =
      `A release costs epsilon ${price.epsilon} per ${me.unit}, however many texts it has. ${price.balance_in_words}`;
  } catch (error) {
    $("cost").textContent = error.message;
  }
  if (balance) drawBudget();
}

// The public maximum of texts that an account per author needs; it multiplies the cost.
function most(model) {
  const asked = me.unit === "author" && model.answers !== "a corpus";
  return asked ? { max_per_author: $("most").valueAsNumber } : {};
}

async function signIn() {
  me = await told("/v1/key");
  models = may("privatize", "jobs", "synthesize") ? await told("/v1/models") : [];
  models = models.filter((each) => each.answers === "a corpus" ? may("synthesize") : may("privatize", "jobs"));
  $("key").value = "";
  $("sign-in").hidden = true;
  $("signed-in").hidden = false;
  $("sign-out").hidden = !key; // a proxy's visitor would be signed in again at once
  $("who").textContent = `${me.name}: ${me.scopes.join(", ")}`;
  $("model").replaceChildren(...models.map((each) => {
    const what = each.answers === "a corpus" ? "a new corpus for a file" : "for each text";
    return new Option(`${each.name} (${what})`, each.name);
  }));
  say(`Signed in. ${models.length} model${models.length === 1 ? "" : "s"} can be used.`);
  await showModel();
  (models.length ? $("model") : $("sign-out")).focus();
  followAddress();
  await showBudget();
  await showJobs();
}

// Show the job that the address names.
function followAddress() {
  const id = location.hash.slice(1);
  if (/^[0-9a-f]{32}$/.test(id) && id !== watching && me.scopes && may("jobs", "synthesize")) {
    follow(id).catch((error) => say(error.message, true));
  }
}
window.addEventListener("hashchange", followAddress);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address keeps the job
  $("main").focus();
});

$("sign-in").addEventListener("submit", acting((event) => {
  event.preventDefault();
  key = $("key").value.trim();
  return signIn();
}));
signIn().catch(() => {}); // a proxy with single sign-on may give the key

$("sign-out").addEventListener("click", () => { location.hash = ""; location.reload(); });
$("model").addEventListener("change", acting(showModel));
$("most").addEventListener("change", acting(showModel));
$("account").addEventListener("change", acting(showBudget));

$("texts-form").addEventListener("submit", acting(async (event) => {
  event.preventDefault();
  const lines = $("texts").value.split("\n").filter((line) => line.trim()), model = chosen();
  if (!lines.length) throw new Error("Expected a text.");
  const own = { ...(model.labels.length && { label: $("label").value }),
    ...(me.unit === "author" && { author: $("author").value }) };
  const body = JSON.stringify({ records: lines.map((text) => ({ text, ...own })), ...most(model) });
  const button = event.submitter;
  button.disabled = true;
  say("Privatizing.");
  try {
    answer = await insist(`/v1/models/${encodeURIComponent(model.name)}/privatize`, body,
      { headers: { "Content-Type": "application/json" }, body });
  } finally {
    button.disabled = false;
  }
  const rows = answer.releases.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  $("pairs").replaceChildren(...rows.map((each, i) => {
    const row = document.createElement("tr");
    cell(row, lines[i]);
    cell(row, each.label === undefined ? each.text : `${each.text} (${each.label})`);
    return row;
  }));
  $("certificate").textContent = `${answer.sentence}\n\n${answer.words}`;
  drawLegal($("legal"), answer.legal_page);
  $("result").hidden = false;
  unsaved = true;
  say(`Released ${rows.length} text${rows.length === 1 ? "" : "s"}. ${answer.balance_in_words}`);
  await showBudget();
  await showModel();
}));

// The file name in the certificate, by which `dptext explain` finds both files.
const output = () => JSON.parse(answer.certificate).output;
$("save-releases").addEventListener("click", () => {
  unsaved = false;
  save(output(), new Blob([answer.releases]));
});
$("save-certificate").addEventListener("click", () =>
  save(`${output()}.guarantee.json`, new Blob([answer.certificate])));

for (const name of ["dragover", "drop"]) { // a file dropped beside the form would replace the page
  document.addEventListener(name, (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
}
for (const name of ["dragover", "dragleave", "drop"]) {
  $("file-form").addEventListener(name, (event) => {
    event.preventDefault();
    $("file-form").classList.toggle("drag", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) $("file").files = event.dataTransfer.files;
  });
}

$("file-form").addEventListener("submit", acting(async (event) => {
  event.preventDefault();
  const file = $("file").files[0], model = chosen(), button = event.submitter, kinds = $("file").accept.split(",");
  if (!kinds.some((each) => file.name.toLowerCase().endsWith(each))) { // a drop does not check the accepted types
    throw new Error(`Expected a file that ends in one of ${kinds.join(", ")}.`);
  }
  if (file.size > me.max_file) {
    const [size, most] = [file.size, me.max_file].map((each) => each.toLocaleString("en"));
    throw new Error(`Expected at most ${most} bytes; this file has ${size}. Send it in parts: each is charged.`);
  }
  const query = new URLSearchParams({ model: model.name, format: file.name.split(".").pop().toLowerCase(),
    text_field: $("text-field").value, ...most(model) });
  if ($("label-field").value) query.set("label_field", $("label-field").value);
  if (me.unit === "author") query.set("author_field", $("author-field").value);
  const columns = ["text_field", "label_field", "author_field"].map((each) => query.get(each)).filter(Boolean);
  const absent = query.get("format") === "jsonl" ? await lacking(file, columns) : [];
  if (absent.length) throw new Error(`The first record has no column ${absent.join(", ")}. Nothing was sent.`);
  button.disabled = true;
  $("sent").value = 0;
  $("sent").hidden = false;
  say(`Sending ${file.name}.`);
  try {
    await told("/v1/key"); // an invalid key is noticed before the file is sent
    const path = model.answers === "a corpus" ? "/v1/synthesize" : "/v1/jobs";
    const payload = `${file.name}\n${file.size}\n${file.lastModified}`;
    const { id } = await insist(`${path}?${query}`, payload, { body: file });
    say(`${file.name} is there, and its job is in the list.`);
    location.hash = id; // the page then follows the job
  } finally {
    button.disabled = false;
    $("sent").hidden = true;
  }
  await showJobs();
}));

// The columns that the first row of JSON Lines lacks. A job finds them, too, but a synthesis would be charged: it tells
// nobody what a record has. This check tells only the person who has the file.
async function lacking(file, columns) {
  const first = (await file.slice(0, 1_000_000).text()).split("\n").find((line) => line.trim());
  try {
    const row = JSON.parse(first);
    return columns.filter((each) => !Object.hasOwn(row, each));
  } catch {
    return []; // the job says what the file is instead
  }
}

async function follow(id) {
  let wait = 0.7, failed = false;
  watching = id;
  $("job").hidden = false;
  $("job-done").hidden = $("job-told").hidden = $("topics").hidden = true;
  for (; watching === id; await sleep(wait), wait = Math.min(1.2 * wait, 5)) {
    let job;
    try {
      job = await told(`/v1/jobs/${id}`);
    } catch (error) {
      if (error.status && !AGAIN.includes(error.status)) throw error;
      say(error.message, true);
      failed = true;
      wait = Math.max(wait, error.wait || 0);
      continue;
    }
    if (watching !== id) return;
    if (failed) say("");
    failed = false;
    const open = ["queued", "running", "cancelling"].includes(job.state);
    const done = job.kind === "synthesize" ? "" : `: ${job.records_done.toLocaleString("en")} records so far`;
    $("job-state").textContent = `The job (${job.model}) ${STATES[job.state]}${open ? done : ""}. ${job.problem || ""}`;
    $("job-progress").hidden = $("job-cancel").hidden = !open;
    if (open) continue;
    if (job.state === "done") await finished(job);
    say(`The job ${STATES[job.state]}.`, job.state !== "done");
    await showBudget();
    await showModel();
    await showJobs();
    return;
  }
}

async function finished(job) {
  $("job-done").hidden = false;
  if (job.kind === "synthesize" && may("synthesize")) showTopics(await told(`/v1/topics/${job.id}`));
  try {
    const said = await told(`/v1/jobs/${job.id}/words`);
    $("job-words").textContent = said.words;
    drawLegal($("job-legal"), said.legal_page);
    $("job-told").hidden = false;
  } catch (error) { // the model may be gone: a paid result can still be downloaded
    $("job-state").textContent += ` There is no certificate in words: ${error.message}`;
  }
}

function showTopics(report) {
  const agreed = report.estimates; // parts add up to their wholes
  drawShares($("labels"), report.labels, agreed.by_label.numbers, report.margin_by_label);
  drawShares($("bars"), report.topics.map((each) => each.words.slice(0, 4).join(", ")),
    agreed.by_topic.numbers, report.margin * Math.sqrt(report.counts.length));
  $("warnings").textContent = report.warnings.join(" ");
  $("topics").hidden = false;
}

async function fetched(path, name) {
  const found = await ask(path);
  const given = /filename="?([^";]+)/.exec(found.headers.get("Content-Disposition") || "");
  save(given ? given[1] : name, await found.blob());
}

$("job-result").addEventListener("click", acting(() => fetched(`/v1/jobs/${watching}/result`, "result")));
$("job-certificate").addEventListener("click", acting(() =>
  fetched(`/v1/jobs/${watching}/certificate`, "result.guarantee.json")));
$("job-report").addEventListener("click", acting(() =>
  fetched(`/v1/topics/${watching}?format=html`, "topics.html")));
$("job-cancel").addEventListener("click", acting(() => ask(`/v1/jobs/${watching}`, { method: "DELETE" })));
