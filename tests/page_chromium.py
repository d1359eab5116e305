"""A page in headless Chromium, and what a reader does to it with mouse and keyboard."""

from __future__ import annotations

import base64
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
SHOWN = "section:not([hidden]) "


class Browser:
    """A page in Chromium, and what a reader does to it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, width: int = 1300, address: str = "", **media: str) -> None:
        """Load a page in a window of this width; `media` are such as prefers_color_scheme."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.driver.get(f"{path.as_uri()}#{address}")

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", SHOWN + selector))

    def element(self, selector: str) -> Any:
        return self.driver.find_element("css selector", SHOWN + selector)

    def column(self, label: str) -> list[str]:
        """The texts of a column's visible cells, from top to bottom, without the spread and what only a phone shows."""
        script = """
        const table = document.querySelector("section:not([hidden]) table");
        const heads = [...table.querySelectorAll("thead th")];
        const at = heads.findIndex((head) => head.textContent === arguments[0]);
        return [...table.querySelectorAll("tbody tr:not([hidden]):not(.group)")].map((line) => {
          const cell = line.children[at].cloneNode(true);
          cell.querySelectorAll(".sd, .brief").forEach((one) => one.remove());
          return cell.textContent;
        });"""
        return list(self.run(script, label))

    def head(self, label: str) -> Any:
        return next(button for button in self.all("thead button") if button.text == label)

    def tip(self) -> str:
        """The lines of the tooltip, if it is there."""
        script = "const tip = document.getElementById('tip'); return tip.hidden ? [] : [...tip.children];"
        return "\n".join(line.text for line in self.run(script))

    def printed(self) -> list[str]:
        """The drawing commands of each sheet of paper."""
        pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
        streams = dict(re.findall(rb"(\d+) 0 obj\s*<<[^>]*>>\s*stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL))
        sheets = re.findall(rb"/Type /Page\b(?!s).*?/Contents (\d+) 0 R", pdf, re.DOTALL)
        return [zlib.decompress(streams[number]).decode("latin-1") for number in sheets]

    def findings(self) -> list[str]:
        """What axe-core finds on the page: the rule, and the first element that breaks it."""
        axe = pytest.importorskip("axe_core_python", reason="axe-core is not here (pip install axe-core-python)")
        self.run(Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
        script = """const done = arguments[0];
        const told = ({ id, nodes }) => `${id}: ${nodes[0].html}`;
        axe.run().then(({ passes, violations }) => done([passes.length, violations.map(told)]));"""
        self.driver.set_script_timeout(120)
        passed, violations = self.driver.execute_async_script(script)
        assert passed > 10, "axe-core tested nothing"
        return list(violations)

    def problems(self) -> list[Any]:
        return list(self.driver.get_log("browser"))


def chromium(profile: Path) -> Iterator[Browser]:
    """Start Chromium, and end it; skips the tests where it cannot be had."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    binary, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("no Chromium here (on Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=chromedriver))
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # a window nobody looks at has none
    try:
        yield Browser(driver)
    finally:
        driver.quit()
