"use strict";
const byId = (id) => document.getElementById(id);

const LABELS = {
  text: ["Text", ""],
  text_b: ["Second text", "optional"],
  question: ["Question", ""],
  context: ["Context", "the text with the answer"],
  choices: ["Choices", "one per line"],
};
// Used if run.json has no examples.
const EXAMPLES = {
  text: {text: "The museum opens at nine on Sundays."},
  text_b: {text: "The museum opens at nine on Sundays.",
    text_b: "On Sundays the museum is open from nine."},
  mask: {text: "The capital of France is [MASK]."},
  ner: {text: "Ada Lovelace wrote to Mary Somerville in London."},
  question: {question: "When was the bridge built?",
    context: "The old bridge was built in 1843 by a local company. " +
      "It is still in use."},
  choices: {context: "She puts the kettle on the stove. She",
    choices: ["waits until the water boils.", "flies to the moon.",
      "sells the kettle to the stove.", "is a small stove."]},
};
const TASKS = {
  classification: "Classification", squad: "Question answering",
  ner: "Named entities", swag: "Multiple choice", pretraining: "Masked words",
  encoder: "Vectors of texts",
};
// For longer texts, attention is drawn only when the user opens it.
const MAX_OPEN = 300;

const state = {models: [], about: {}, signatures: {}, last: null,
  drawn: null, asked: null};

async function fetched(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw new Error("The server does not answer; is it still running?");
  }
  let value;
  try {
    value = await response.json();
  } catch (error) {
    throw new Error(`The server answered with status ${response.status}.`);
  }
  if (value.error !== undefined) throw new Error(value.error);
  return value;
}

const modelPath = (verb) =>
  `/v1/models/${encodeURIComponent(state.about.name)}${verb}`;
const inputsOf = (name) => Object.keys(state.signatures[name].inputs);
const isTexts = (name) => Object.values(state.signatures[name].inputs)
  .every((input) => input.dtype === "DT_STRING");

// The function for inputs with these names.
function functionOf(names) {
  const wanted = [...names].sort().join();
  const found = Object.keys(state.signatures).filter((name) =>
    isTexts(name) && inputsOf(name).sort().join() === wanted);
  return ["plain_text", ...found].find((name) => found.includes(name));
}

function fieldNames() {
  if (isEncoder() && functionOf(["text"])) return ["text", "text_b"];
  const forms = [["question", "context"], ["context", "choices"],
    ["text", "text_b"], ["text"]];
  // A model of single texts also accepts pairs, but was not trained on them.
  return forms.find((names) => functionOf(names) &&
    !(names.includes("text_b") && settings().is_pair === false)) || [];
}

// The parts of run.json, which a model may lack.
const settings = () => state.about.settings || {};
const labels = () => state.about.labels || {};
const examples = () => (state.about.examples || {}).shown || [];
const isEncoder = () => state.about.task === "encoder";
const isMaskFiller = () => state.about.task === "pretraining";

function hintOf(name) {
  if (name === "text_b" && (settings().is_pair || !functionOf(["text"])))
    return "";
  if (name === "text" && isMaskFiller())
    return "write [MASK] in place of a word to predict";
  if (name === "context" && functionOf(["context", "choices"]))
    return "the choices continue this text";
  return LABELS[name][1];
}

function showFields(names) {
  byId("fields").replaceChildren(...names.map((name) => {
    const label = element("label", `${LABELS[name][0]} `);
    label.append(element("span", hintOf(name)));
    const area = element("textarea");
    area.id = name;
    const isLong = name === "context" && names.includes("question");
    area.rows = isLong ? 6 : name === "choices" ? 4 : 2;
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
        byId("form").requestSubmit();
    });
    label.append(area);
    return label;
  }));
  byId("form").hidden = false;
}

function fill(inputs) {
  for (const area of document.querySelectorAll("#fields textarea")) {
    const value = inputs[area.id] || "";
    area.value = Array.isArray(value) ? value.join("\n") : value;
  }
}

// Examples of the run, otherwise a made-up one.
function examplesOf(names) {
  const own = examples().filter(({inputs}) =>
    names.some((name) => name in inputs));
  if (own.length) return own;
  const kind = names.includes("choices") ? "choices" :
    names.includes("question") ? "question" :
      isMaskFiller() ? "mask" : labels().problem_type === "words" ? "ner" :
        functionOf(["text"]) && !settings().is_pair && !isEncoder() ?
          "text" : "text_b";
  return [{inputs: EXAMPLES[kind], answer: null}];
}

function showExamples(names) {
  const nameOf = ({inputs}) => inputs.question || Object.values(inputs)[0];
  const wordsOf = (example) =>
    nameOf(example).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  const different = examplesOf(names).filter((example, i, all) =>
    all.findIndex((other) => wordsOf(other) === wordsOf(example)) === i);
  fill(different[0].inputs);
  const buttons = different.map((example) => {
    const button = element("button", nameOf(example));
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      fill(example.inputs);
      for (const each of buttons)
        each.setAttribute("aria-pressed", String(each === button));
      ask(example);
    });
    return button;
  });
  // A made-up example is already in the form.
  byId("examples").replaceChildren(...examples().length ?
    [element("span", "From the evaluation data:", "hint"), ...buttons] : []);
}

function typed() {
  const row = {};
  for (const area of document.querySelectorAll("#fields textarea")) {
    if (area.id === "text_b" && !area.value.trim() && functionOf(["text"]))
      continue;
    row[area.id] = area.id === "choices" ?
      area.value.split("\n").filter((line) => line.trim()) : area.value;
  }
  return row;
}

function showBusy(isBusy) {
  byId("send").disabled = isBusy;
  byId("send").setAttribute("aria-busy", String(isBusy));
  byId("send").textContent = isBusy ? "Computing" : "Ask";
}

async function ask(example) {
  const row = typed();
  byId("error").textContent = byId("time").textContent = "";
  byId("status").textContent = "Computing";
  state.drawn = state.asked = null;
  byId("picture").replaceChildren();  // Removes the picture of the last text.
  showBusy(true);
  try {
    const rows = isEncoder() ? Object.values(row).map((text) => ({text})) :
      [row];
    const name = functionOf(Object.keys(rows[0]));
    const body = {signature_name: name, instances: rows};
    const start = performance.now();
    const {predictions} = await fetched(modelPath(":predict"), body);
    const found = isEncoder() ?
      {embeddings: predictions.map(({embedding}) => embedding)} :
      predictions[0];
    const seconds = (performance.now() - start) / 1000;
    showAnswer(row, found, example);
    const took = seconds < 1 ? `${Math.round(1000 * seconds)} ms` :
      `${seconds.toFixed(1)} s`;
    byId("time").textContent = `answered in ${took}`;
    byId("status").textContent =
      `Answer: ${byId("found").firstChild.textContent}, in ${took}`;
    showCode(body);
    state.last = "choice" in found ?
      {context: row.context, text_b: row.choices[found.choice]} : row;
    byId("attention").hidden = !("attention" in state.signatures);
    if (Object.values(state.last).join("").length <= MAX_OPEN)
      byId("attention").open = true;
    failing(showAttention());
  } catch (error) {
    byId("status").textContent = "";
    byId("error").textContent = error.message;
  } finally {
    showBusy(false);
  }
}

function showAnswer(row, found, example) {
  const parts = shownAnswer(row, found, state.about);
  const expected = example ? expectedOf(example.answer, row, state.about) : "";
  if (expected)
    parts.push(element("p", `Expected: ${expected}`, "hint"));
  byId("found").replaceChildren(...parts);
  byId("answer").hidden = false;
}

function showCode(body) {
  const url = location.origin + modelPath(":predict");
  const text = JSON.stringify(body);
  byId("curl").textContent = "curl -H 'Content-Type: application/json' \\\n" +
    `  -d '${text.replace(/'/g, "'\\''")}' \\\n  ${url}`;
  byId("python").textContent = [
    "import json", "import urllib.request", "",
    "request = urllib.request.Request(",
    `  ${JSON.stringify(url)},`,
    `  json.dumps(${text}).encode(),`,
    '  {"Content-Type": "application/json"},', ")",
    "with urllib.request.urlopen(request) as response:",
    `  print(json.load(response)["predictions"]${
      body.instances.length > 1 ? "" : "[0]"})`,
  ].join("\n");
  byId("code").hidden = false;
}

async function copy(id, name) {
  try {
    await navigator.clipboard.writeText(byId(id).textContent);
    byId("copied").textContent = `Copied ${name}.`;
  } catch (error) {  // Browsers allow copying only on localhost and https.
    getSelection().selectAllChildren(byId(id));
    byId("copied").textContent = `Selected ${name}: copy it with Ctrl+C.`;
  }
}

function options(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => {
    const option = element("option", text);
    option.value = value;
    return option;
  }));
}

const counted = (count) =>
  [...Array(Number(count)).keys()].map((i) => [String(i), String(i + 1)]);

function prepareAttention() {
  byId("attention").hidden = true;
  if (!("attention" in state.signatures)) return;
  const [, layers, heads] = state.signatures.attention.outputs.attention
    .tensor_shape.dim.map(({size}) => Number(size));
  options(byId("layer"), counted(layers));
  byId("layer").value = String(layers - 1);
  options(byId("head"), [...counted(heads), ["mean", "mean of all"]]);
  byId("layers").hidden = layers < 2;
  byId("heads").hidden = heads < 2;
}

async function showAttention() {
  if (!state.last || !byId("attention").open || byId("attention").hidden)
    return;
  const {text, text_b, question, context} = state.last;
  const body = {layer: Number(byId("layer").value),
    head: byId("head").value === "mean" ? null : Number(byId("head").value)};
  const texts = [question, text, context, text_b]
    .filter((each) => each !== undefined);
  [body.text, body.text_b] = texts;
  if (texts.length < 2) delete body.text_b;
  const key = JSON.stringify(body);
  if (state.asked === key) return;  // The request is running.
  state.asked = key;
  const found = await fetched(modelPath(":attention"), body);
  if (state.asked !== key) return;  // The user has chosen another.
  state.drawn = found;
  redraw();
}

function redraw() {
  if (!state.drawn) return;
  byId("picture").setAttribute("aria-label", "Attention");
  drawAttention(byId("picture"), state.drawn, Number(byId("links").value),
    (text) => { byId("share").textContent = text; });
}

const failing = (promise) => promise.catch((error) => {
  byId("error").textContent = error.message;
});

// Several values have a line each.
function fact(name, values) {
  const lines = values.map((value) => {
    if (!Array.isArray(value)) return element("div", value);
    const line = element("div");
    line.append(...value.map((part) => element("span", part)));
    return line;
  });
  const shown = element("dd");
  shown.append(...lines);
  return [element("dt", name), shown];
}

// Omits the loss, which tells a reader little.
function scoresOf({scores = {}}) {
  const found = Object.entries(scores).filter(([name]) =>
    !/^(eval_)?loss$/.test(name));
  return found.slice(0, 6).map(([name, value]) => [
    name.replace(/^eval_/, "").replace(/_/g, " ").replace(/\bf1\b/, "F1"),
    String(Number(value.toPrecision(3)))]);
}

// For named entities, returns the types without B- and I-.
function labelsOf(about) {
  const names = labels().labels.map((label) => labelled(label, about).name);
  return labels().problem_type === "words" ? typesOf(names) : names;
}

function showAbout() {
  const {about} = state, parts = [];
  const number = (value) => value.toLocaleString("en");
  const name = labels().task_name;
  const own = name && ![about.task, "own data"].includes(name);
  if (about.task)
    parts.push(fact("Task", [(TASKS[about.task] || about.task) +
      (own ? `: ${name}` : "")]));
  if ((labels().labels || []).length)
    parts.push(fact("Labels", [labelsOf(about).join(", ")]));
  if (about.size)
    parts.push(fact("Size", [
      `${about.size.num_hidden_layers} layers of ${about.size.hidden_size}`,
      ...(about.size.num_parameters ?
        [`${number(about.size.num_parameters)} parameters`] : []),
      `${number(about.size.vocab_size)} word pieces`]));
  const counts = about.examples || {};
  const data = [["num_train", "for training"], ["num_dev", "for evaluation"]]
    .filter(([name]) => counts[name] !== undefined)
    .map(([name, text]) => `${number(counts[name])} ${text}`);
  if (data.length) parts.push(fact("Examples", data));
  const scores = scoresOf(about);
  const on = counts.num_dev ? [`on ${number(counts.num_dev)} examples`] : [];
  if (scores.length) parts.push(fact("Scores", [...on, ...scores]));
  if (settings().max_seq_length)
    parts.push(fact("Length", [`${settings().max_seq_length} word pieces`]));
  parts.push(fact("Version", [about.version]));
  byId("facts").replaceChildren(...parts.flat());
  byId("about").hidden = false;
}

async function choose(name) {
  state.about = state.models.find((model) => model.name === name) ||
    state.models[0];
  byId("model").value = byId("title").textContent = document.title =
    state.about.name;
  for (const id of ["form", "answer", "attention", "code"])
    byId(id).hidden = true;
  byId("error").textContent = byId("time").textContent = "";
  state.last = state.drawn = state.asked = null;
  showAbout();
  const found = await fetched(modelPath("/metadata"));
  state.signatures = found.metadata.signature_def.signature_def;
  const names = fieldNames();
  byId("note").hidden = names.length > 0;
  byId("note").textContent = "This model takes word-piece ids, not texts. " +
    `Functions: ${Object.keys(state.signatures).join(", ")}.`;
  if (!names.length) return;
  showFields(names);
  showExamples(names);
  prepareAttention();
}

// A link may contain a model and texts: /#model=...&text=...&text_b=...
async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.models = (await fetched("/v1/models")).models;
  options(byId("model"), state.models.map(({name}) => [name, name]));
  byId("chooser").hidden = state.models.length < 2;
  await choose(given.get("model"));
  const inputs = Object.fromEntries([...given].map(([name, value]) =>
    [name, name === "choices" ? value.split("\n") : value]));
  if ([...document.querySelectorAll("#fields textarea")]
    .some(({id}) => given.has(id))) {
    fill(inputs);
    await ask();
  }
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  for (const each of byId("examples").querySelectorAll("button"))
    each.setAttribute("aria-pressed", "false");
  ask();
});
byId("model").addEventListener("change", () =>
  failing(choose(byId("model").value)));
for (const id of ["layer", "head"])
  byId(id).addEventListener("change", () => failing(showAttention()));
byId("links").addEventListener("change", redraw);
byId("attention").addEventListener("toggle", () => {
  if (!state.drawn) failing(showAttention());
});
addEventListener("resize", redraw);
byId("copy_curl").addEventListener("click", () => copy("curl", "curl"));
byId("copy_python").addEventListener("click", () => copy("python", "Python"));
begin().catch((error) => {
  byId("note").textContent = "";
  byId("error").textContent = error.message;
});
