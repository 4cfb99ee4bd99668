// Brings the page to life: theme, figures, explorer, download.

const data = JSON.parse(document.getElementById("data").textContent);

function theme() {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = html("button", {
    type: "button",
    class: "quiet",
    click: () => {
      root.dataset.theme = dark() ? "light" : "dark";
      label();
    },
  });
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${dark() ? "light" : "dark"} colours`);
  };
  system.addEventListener("change", label);
  label();
  return button;
}

const download = () => save("report.json", new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }));

document
  .getElementById("tools")
  .append(
    html(
      "button",
      { type: "button", class: "quiet", id: "download", "aria-label": "Download all numbers as JSON", click: download },
      "JSON",
    ),
    theme(),
  );
for (const host of document.querySelectorAll("figure[data-figure]")) new Chart(host, data.figures[Number(host.dataset.figure)]);
if (data.explorer.length) startExplorer(document.getElementById("explorer"), data.explorer);
document.documentElement.classList.add("alive");
