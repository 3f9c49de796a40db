"""What hears and what speaks: one interface each, and the engines behind them."""
