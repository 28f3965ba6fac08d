// Keeps the content of a page up to date by events of its own address. Without it the page stays as
// it was read. It never takes anything away under a person who types, selects or opens something.
"use strict";

const content = document.getElementById("content");
const hold = document.getElementById("hold");
const said = document.getElementById("live-said");
// Five looks: of a connection that has died in silence a browser hears nothing.
const HEARD_WITHIN_MS = 15000;
// Where as many pages are kept up to date as may be.
const ASK_AGAIN_MS = 30000;
let events = null;
let isHeld = false;
let watch = 0;

function isInUse() {
  const fields = [...content.querySelectorAll("input, textarea")];
  const isFilled = fields.some((one) => one.value !== one.defaultValue || one.checked !== one.defaultChecked);
  const chosen = document.getSelection();
  const isSelected = !chosen.isCollapsed && content.contains(chosen.anchorNode);
  return isFilled || isSelected || content.querySelector("details[open]") !== null;
}

function scrolled() {
  return [...content.querySelectorAll(".scroll")];
}

function focusable() {
  return [...content.querySelectorAll("a, button, input, textarea, summary, [tabindex]")];
}

function heard() {
  clearTimeout(watch);
  watch = setTimeout(() => { said.textContent = "Not up to date: the console has said nothing for 15 s"; }, HEARD_WITHIN_MS);
}

function show(event) {
  heard();
  if (isInUse()) {
    said.textContent = "Held still while you fill in, select or unfold";
    return;
  }
  const places = scrolled().map((one) => one.scrollLeft);
  const focus = focusable().indexOf(document.activeElement);
  // It comes from this console, where each text is escaped; and its policy runs no script in it.
  content.innerHTML = JSON.parse(event.data);
  scrolled().forEach((one, at) => { one.scrollLeft = places[at] ?? 0; });
  focusable()[focus]?.focus({ preventScroll: true });
  said.textContent = "";
}

function close() {
  clearTimeout(watch);
  events?.close();
  events = null;
}

function follow() {
  close();
  if (isHeld || document.hidden) {
    return;
  }
  events = new EventSource(location.href);
  heard();
  events.addEventListener("content", show);
  events.addEventListener("fault", (event) => { heard(); said.textContent = "Not up to date: " + JSON.parse(event.data); });
  events.addEventListener("over", () => { close(); said.textContent = "Not up to date: log in again"; });
  events.addEventListener("full", (event) => { close(); said.textContent = "Not up to date: " + JSON.parse(event.data); watch = setTimeout(follow, ASK_AGAIN_MS); });
  events.onerror = () => { said.textContent = "Not up to date: the console does not answer"; };
}

hold.addEventListener("click", () => {
  isHeld = !isHeld;
  hold.setAttribute("aria-pressed", String(isHeld));
  said.textContent = isHeld ? "Held still" : "";
  follow();
});
// A browser has few connections to one host, and nobody sees a hidden page.
document.addEventListener("visibilitychange", follow);
hold.hidden = false;
follow();
