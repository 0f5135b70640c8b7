namespace SensorHub.Measuring;

/// <summary>A whole run.</summary>
/// <param name="Writing">While the loop wrote.</param>
/// <param name="Whole">Until the last arrival.</param>
internal sealed record HubSummary(HubReading Writing, HubReading Whole);
