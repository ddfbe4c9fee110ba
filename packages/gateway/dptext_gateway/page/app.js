// The page of the gateway: who is signed in, the budget, a few texts, and jobs.
"use strict";

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

// The first letters of the id of a job, which tell two jobs of one file apart.
const short = (job) => job.id.slice(0, 8);

// Which job it is: by its file, if this tab knows that, by its time, and by its id.
function which(job) {
  const said = `${job.model}, ${minute(job.created)}, job ${short(job)}`;
  return fileNames.has(job.id) ? `${fileNames.get(job.id)} (${said})` : said;
}

// A link to a job, which the page then shows.
function linkTo(job, text) {
  const link = document.createElement("a");
  link.href = `#${job.id}`;
  link.textContent = text;
  link.addEventListener("click", () => { if (watching === job.id) $("job-title").focus(); });
  return link;
}

// What a job makes, and of which file, if this tab knows.
function made(job) {
  const what = `${job.summary ? "summary" : job.kind === "synthesize" ? "corpus" : "texts"} ${short(job)}`;
  return fileNames.has(job.id) ? `${what} of ${fileNames.get(job.id)}` : what;
}

// The jobs of the account that are still known, newest first, so that nobody has to keep their addresses.
async function showJobs() {
  if (!may("jobs", "synthesize")) return;
  const found = await told("/v1/jobs");
  $("jobs").hidden = !found.length;
  showSummaries(found);
  $("jobs-list").replaceChildren(...found.map((each) => {
    const row = document.createElement("tr");
    cell(row, "").append(linkTo(each, minute(each.created)));
    cell(row, made(each));
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
  showMaking(found);
  $("few").hidden = corpus || !may("privatize");
  $("whole").hidden = !may(corpus ? "synthesize" : "jobs") ||
    (corpus && !found.guarantees.some((each) => each.unit === me.unit));
  $("label-box").hidden = !found.labels.length;
  $("label").replaceChildren(...found.labels.map((each) => new Option(each, each)));
  $("most-box").hidden = corpus || !author;
  $("author-box").hidden = $("author-field-box").hidden = !author;
  $("author").required = $("author-field").required = author;
  $("label-field").required = found.reads_labels;
  if ($("label-field").tagName === "INPUT") $("label-field").placeholder = found.reads_labels ? "label" : "none";
  else $("label-field").options[0].textContent = found.reads_labels ? "choose one" : "none";
  price = null;
  if (author && !corpus && !$("most").checkValidity()) {
    $("cost").textContent = "Say how many texts one author has at most: a whole number from 1.";
    return;
  }
  try {
    price = await told(`/v1/models/${encodeURIComponent(found.name)}/cost?${new URLSearchParams(most(found))}`);
    $("cost").textContent =
      `A ${found.kind === "summary" ? "summary of a file" : "release"} costs epsilon ${price.epsilon} per ${me.unit}, ` +
      `however many texts it has. ${price.balance_in_words}`;
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
  models.sort((one, other) => (other.kind === "summary") - (one.kind === "summary")); // what is written from is first
  $("key").value = "";
  $("sign-in").hidden = true;
  $("signed-in").hidden = false;
  $("sign-out").hidden = !key; // a proxy's visitor would be signed in again at once
  $("who").textContent = `${me.name}: ${me.scopes.join(", ")}`;
  $("model").replaceChildren(...models.map((each) => {
    const corpus = each.kind === "summary" ? "a summary of a file" : "a new corpus for a file";
    const what = each.answers === "a corpus" ? corpus : "for each text";
    return new Option(`${each.name} (${what})`, each.name);
  }));
  say(`Signed in. ${models.length} model${models.length === 1 ? "" : "s"} can be used.`);
  await changeModel();
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
window.addEventListener("hashchange", () => {
  followAddress();
  if (!$("job").hidden) $("job-title").focus(); // the page goes there
});
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
$("model").addEventListener("change", acting(changeModel));
$("most").addEventListener("change", acting(showModel));
$("account").addEventListener("change", acting(showBudget));

$("texts-form").addEventListener("submit", acting(async (event) => {
  event.preventDefault();
  const lines = $("texts").value.split("\n").filter((line) => line.trim()), model = chosen();
  if (!lines.length) throw new Error("Expected a text.");
  const own = { ...(model.labels.length && { label: $("label").value }),
    ...(me.unit === "author" && { author: $("author").value }) };
  const body = JSON.stringify({ records: lines.map((text) => ({ text, ...own })), ...most(model) });
  const button = event.submitter, path = `/v1/models/${encodeURIComponent(model.name)}/privatize`;
  if (!await meant(path, body, lines.length === 1 ? "This text" : `This list of ${lines.length} texts`)) return;
  button.disabled = true;
  say("Privatizing.");
  try {
    answer = await insist(path, body, { headers: { "Content-Type": "application/json" }, body });
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

async function follow(id) {
  let wait = 0.7, failed = false;
  watching = id;
  $("job").hidden = false;
  $("job-done").hidden = $("job-told").hidden = $("topics").hidden = $("write").hidden = true;
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
    $("job-title").textContent = `${job.summary ? "Summary" : "Job"} ${short(job)}: ` +
      (fileNames.get(id) || `${job.model}, ${minute(job.created)}`);
    $("job-result").textContent = `Download ${job.summary ? "summary" : "result"}`;
    $("job-report").hidden = job.kind !== "synthesize" || !may("synthesize");
    $("job-report").textContent = `Download ${job.summary ? "page" : "report"}`;
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
    showNews();
    return;
  }
}

// Scroll to what has come in below the title of a job, unless its reader has gone elsewhere.
function showNews() {
  const title = $("job-title"), { top, bottom } = title.getBoundingClientRect();
  if (document.activeElement === title && bottom > 0 && top < innerHeight) title.scrollIntoView();
}

async function finished(job) {
  $("job-done").hidden = false;
  if (job.kind === "synthesize" && may("synthesize")) {
    showTopics(await told(`/v1/topics/${job.id}`));
    if (job.summary) await showWriting(job);
  }
  try {
    const said = await told(`/v1/jobs/${job.id}/words`);
    $("job-words").textContent = said.words;
    drawLegal($("job-legal"), said.legal_page);
    $("job-told").hidden = false;
  } catch (error) { // the model may be gone: a paid result can still be downloaded
    $("job-state").textContent += ` There is no certificate in words: ${error.message}`;
  }
}

// Download a file; return its name.
async function fetched(path, name, options) {
  const found = await ask(path, options);
  const given = /filename="?([^";]+)/.exec(found.headers.get("Content-Disposition") || "");
  save(given ? given[1] : name, await found.blob());
  say(`${given ? given[1] : name} was downloaded.`);
  return given ? given[1] : name;
}

$("job-result").addEventListener("click", acting(() => fetched(`/v1/jobs/${watching}/result`, "result")));
$("job-certificate").addEventListener("click", acting(() =>
  fetched(`/v1/jobs/${watching}/certificate`, "result.guarantee.json")));
$("job-legal-page").addEventListener("click", acting(() =>
  fetched(`/v1/jobs/${watching}/legal`, "legal.html")));
$("job-report").addEventListener("click", acting(() =>
  fetched(`/v1/topics/${watching}?format=html`, "topics.html")));
$("job-cancel").addEventListener("click", acting(() => ask(`/v1/jobs/${watching}`, { method: "DELETE" })));
