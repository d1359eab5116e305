"""Commands that choose, adapt and tune encoders on texts of your own."""
