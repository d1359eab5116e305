"""Commands that choose, adapt and tune encoders on texts of your own."""

from benchmark.cli.options import device_option, json_option, options, plugin_option, precision_option

running_options = options(plugin_option, device_option, precision_option, json_option)
