using Spectre.Console;

namespace Shared;

/// <summary>Redraws the screen in place four times a second.</summary>
internal sealed class LiveView(IScreen screen, SampleLog events) : IView
{
    private const int LooksPerSecond = 4;
    private const int ShownEvents = 6;

    private readonly Queue<LogEntry> _lastEvents = [];
    private long _position;

    public Task ShowAsync(CancellationToken ended) =>
        AnsiConsole.Live(Look()).Overflow(VerticalOverflow.Crop).Cropping(VerticalOverflowCropping.Bottom).StartAsync(async live =>
        {
            while (!ended.IsCancellationRequested)
            {
                await Task.Delay(TimeSpan.FromSeconds(1.0 / LooksPerSecond), ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                live.UpdateTarget(Look());
            }
        });

    private Rows Look()
    {
        foreach (var happened in events.ReadFrom(ref _position))
            _lastEvents.Enqueue(happened);
        while (_lastEvents.Count > ShownEvents)
            _lastEvents.Dequeue();
        // The terminal echoes Ctrl-C as two characters. In a full line they would scroll the screen.
        var width = Math.Max(20, AnsiConsole.Profile.Width - 3);
        return new Rows([screen.Draw(width), .. _lastEvents.Select(happened => Show(happened, width))]);
    }

    private static Text Show(LogEntry happened, int width) =>
        new(Shown.Cut($"  {happened.At:HH:mm:ss}  {happened.Text}", width), happened.IsTrouble ? Color.Yellow : Color.Grey);
}
