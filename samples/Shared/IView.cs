namespace Shared;

/// <summary>Shows the run until it ends.</summary>
internal interface IView
{
    /// <param name="ended">Cancelled when the run is over. The view then shows the last figures and completes its task without an exception.</param>
    Task ShowAsync(CancellationToken ended);
}
