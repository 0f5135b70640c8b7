namespace WorldTicks.View;

/// <summary>Shows what goes on, until it is over.</summary>
internal interface ITicksView
{
    /// <param name="ended">Cancelled when the run is over; the task then ends after a last look, without an exception.</param>
    Task ShowAsync(CancellationToken ended);
}
