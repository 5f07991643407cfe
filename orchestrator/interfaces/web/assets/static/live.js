// Keeps a page as a reload would show it: listens to the journal's events, fetches the page, takes over what differs.
"use strict";

// Milliseconds between two fetches. They are more after a long fetch: a slow server is asked less often.
const LEAST_MS = 50, AGAIN_MS = 4000;
let source = null, last = null, fetching = false, due = false, timer = 0, fetched = 0, took = 0;

const keyOf = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || null : null);
const isLike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// Makes `now` like `then`, node by node, so that focus, selection and scroll position stay.
function morph(now, then) {
  if (now.nodeType !== 1) {
    if (now.nodeValue !== then.nodeValue) now.nodeValue = then.nodeValue;
    return;
  }
  const kept = now.nodeName === "DETAILS" ? ["open"] : [];
  for (const { name } of [...now.attributes])
    if (!then.hasAttribute(name) && !kept.includes(name)) now.removeAttribute(name);
  for (const { name, value } of [...then.attributes])
    if (now.getAttribute(name) !== value && !kept.includes(name)) now.setAttribute(name, value);
  let here = now.firstChild;
  for (const next of [...then.childNodes]) {
    if (here && isLike(here, next)) {
      morph(here, next);
      here = here.nextSibling;
      continue;
    }
    let found = here;
    if (keyOf(next) !== null) while (found && !isLike(found, next)) found = found.nextSibling;
    else found = null;
    if (found) {
      now.insertBefore(found, here);
      morph(found, next);
    } else now.insertBefore(document.importNode(next, true), here);
  }
  while (here) {
    const gone = here;
    here = here.nextSibling;
    gone.remove();
  }
}

async function refresh() {
  if (fetching) return void (due = true);
  const began = performance.now();
  fetching = true;
  due = false;
  try {
    const answer = await fetch(location.href.replace(/[?&]done=[^&#]*/, ""), { headers: { accept: "text/html" } });
    if (!answer.ok && answer.status !== 404) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const note = document.querySelector("main > .note[role=status]");
    if (note) page.querySelector("main").prepend(note.cloneNode(true));
    document.title = page.title;
    const ends = [...document.querySelectorAll(".transcript")].filter(isAtEnd);
    for (const part of ["header nav", "main"]) morph(document.querySelector(part), page.querySelector(part));
    for (const one of ends) one.scrollTop = one.scrollHeight;
    document.body.dataset.seen = last;
  } catch {
    due = true;
    await new Promise((go) => setTimeout(go, AGAIN_MS));
  }
  fetched = performance.now();
  took = fetched - began;
  fetching = false;
  if (due) schedule();
}

const isAtEnd = (one) => one.scrollHeight - one.scrollTop - one.clientHeight < 40;

function schedule() {
  due = true;
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, fetched + Math.max(LEAST_MS, took / 4) - performance.now()));
}

function tell(words) {
  const link = document.getElementById("link");
  if (link && link.textContent !== words) link.textContent = words;
}

function listen() {
  const url = new URL(document.body.dataset.stream, location.href);
  if (last) url.searchParams.set("after", last);
  source = new EventSource(url);
  source.onopen = () => tell("");
  source.onmessage = (event) => {
    last = event.lastEventId || last;
    schedule();
  };
  source.onerror = () => {
    tell("not connected");
    if (source.readyState !== EventSource.CLOSED) return;
    source = null;
    setTimeout(() => source || document.hidden || listen(), AGAIN_MS * (0.7 + 0.6 * Math.random()));
  };
}

// Browsers open only six connections to one server: a tab that nobody sees holds none.
function follow() {
  if (document.hidden) {
    if (source) source.close();
    source = null;
  } else if (!source) {
    listen();
    if (fetched) schedule();
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
});

if (document.body.dataset.stream) {
  for (const one of document.querySelectorAll(".transcript")) one.scrollTop = one.scrollHeight;
  document.addEventListener("visibilitychange", follow);
  follow();
}
