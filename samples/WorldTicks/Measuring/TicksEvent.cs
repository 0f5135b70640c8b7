namespace WorldTicks.Measuring;

/// <summary>Something that BatchKit logged, or that the program itself has to say.</summary>
/// <param name="At">The time of day.</param>
/// <param name="IsTrouble">True for a warning or an error.</param>
/// <param name="Text">What happened.</param>
internal sealed record TicksEvent(DateTimeOffset At, bool IsTrouble, string Text);
