namespace SensorHub.Measuring;

/// <summary>The figures of a whole run.</summary>
/// <param name="Writing">The figures while the loop wrote.</param>
/// <param name="Whole">The figures from the start to the last arrival.</param>
internal sealed record HubSummary(HubReading Writing, HubReading Whole);
