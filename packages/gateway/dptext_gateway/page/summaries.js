// Summaries: the noisy numbers of a file, and the corpora that are written from them without a charge.
"use strict";

function showTopics(report) {
  const agreed = report.estimates, columns = report.columns || []; // parts add up to their wholes
  const groups = columns.map((each) => each.estimates);
  if (report.labels.length) groups.push(agreed.by_label);
  if (report.topics.length) groups.push(agreed.by_topic);
  const longest = Math.max(1, ...groups.flatMap((each) => each.high));
  drawNumbers($("labels"), report.labels, agreed.by_label, longest);
  drawNumbers($("bars"), report.topics.map((each) => each.words.slice(0, 4).join(", ")), agreed.by_topic, longest);
  $("columns").replaceChildren(...columns.map((each) => {
    const part = document.createElement("div");
    cell(part, `Column ${each.name}`, "h4");
    cell(part, "", "div");
    drawNumbers(part, each.cells, each.estimates, longest, true);
    return part;
  }));
  $("warnings").textContent = report.warnings.join(" ");
  $("topics").hidden = false;
}

// What a model makes of a file, in plain words.
function showMaking(model) {
  const columns = model.settings.columns || [];
  $("makes").hidden = model.kind !== "summary";
  const about = model.settings.about;
  $("about").hidden = !about;
  $("about").textContent = about ? `It is set for files of about ${about.toLocaleString("en")} texts. Of a file with ` +
    "far fewer, noise hides more, and less can be read." : "";
  $("file-title").textContent = model.kind === "summary" ? "Measure a file" : "A file";
  const corpus = model.answers === "a corpus";
  $("unreadable").textContent = corpus ? "A record that cannot be read adds nothing." :
    "A record that cannot be read ends the job, and nothing is charged.";
  $("measured").hidden = !columns.length;
  $("measured-list").replaceChildren(...columns.map((each) => {
    const item = document.createElement("li");
    item.textContent = each;
    return item;
  }));
}

// The summaries among the jobs of the account.
function showSummaries(jobs) {
  const found = jobs.filter((each) => each.summary && each.state === "done");
  $("summaries").hidden = !found.length;
  $("summaries-list").replaceChildren(...found.map((each) => {
    const item = document.createElement("li");
    item.append(linkTo(each, which(each)));
    return item;
  }));
}

// The form for corpora of one summary.
async function showWriting(job) {
  const can = await told(`/v1/summaries/${job.id}`);
  $("refused").textContent = can.refused || "";
  $("write-form").hidden = Boolean(can.refused);
  $("undeclared").hidden = Boolean(can.refused) || !can.columns.length;
  $("shares").hidden = !can.shares.length;
  $("shares").textContent = "Labels leave in these shares, the noisy ones below, pulled towards equal by the share of " +
    `noise in them: ${can.labels.map((each, i) => `${each} ${Math.round(100 * can.shares[i])}%`).join(", ")}.`;
  $("size").max = can.most;
  $("size").placeholder = `as many as fit, at most ${can.most.toLocaleString("en")}`;
  $("mix-box").hidden = !can.labels.length;
  $("mix").replaceChildren(...can.labels.map((each, i) => {
    const box = document.createElement("div"), label = cell(box, `${each}, in %`, "label");
    const share = document.createElement("input");
    label.htmlFor = share.id = `mix-${i}`;
    share.dataset.label = each;
    Object.assign(share, { type: "number", min: 0, max: 100, step: "any", placeholder: "as above" });
    box.append(share);
    return box;
  }));
  $("written").replaceChildren();
  $("written-box").hidden = true;
  $("write").hidden = false;
}

$("write-form").addEventListener("submit", acting(async (event) => {
  event.preventDefault();
  const button = event.submitter, id = watching;
  const labels = [...$("mix").querySelectorAll("input")], shares = labels.filter((each) => each.value !== "");
  const sum = shares.reduce((all, each) => all + each.valueAsNumber, 0), rest = shares.length < labels.length;
  if (shares.length && (sum > 100.001 || (sum < 99.999 && !rest))) {
    throw new Error("Expected shares that add up to 100 %, or to less if a label has no number.");
  }
  const mix = Object.fromEntries(shares.map((each) => [each.dataset.label, each.valueAsNumber / 100]));
  const body = JSON.stringify({ format: $("format").value, ...($("size").value && { size: $("size").valueAsNumber }),
    ...(shares.length && { mix }), ...(!$("undeclared").hidden && $("drop-other").checked && { drop_other: true }) });
  button.disabled = true;
  say("Writing a corpus.");
  try {
    const headers = { "Content-Type": "application/json" };
    const name = await fetched(`/v1/summaries/${id}/write`, "corpus.zip", { method: "POST", headers, body });
    if (watching === id) {
      cell($("written"), `${name}: no charge`, "li");
      $("written-box").hidden = false;
    }
    const more = $("undeclared").hidden || $("drop-other").checked ? "" : " Some cells may be other or empty, as the noisy numbers say.";
    say(`${name} was written and downloaded. No charge.${more}`);
  } finally {
    button.disabled = false;
  }
}));
