
namespace Shared;

/// <summary>Prints one line a second and one for each event, for scripts, logs and terminals that cannot move the cursor.</summary>
internal sealed class PlainView(IScreen screen, SampleLog events) : IView
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(1);

    public async Task ShowAsync(CancellationToken ended)
    {
        Console.WriteLine(screen.Title);
        var position = 0L;
        while (!ended.IsCancellationRequested)
        {
            await Task.Delay(Interval, ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            foreach (var happened in events.ReadFrom(ref position))
                Console.WriteLine($"{happened.At:HH:mm:ss} {(happened.IsTrouble ? "! " : "")}{happened.Text}");
            if (!ended.IsCancellationRequested)
                Console.WriteLine(screen.Say());
        }
    }
}
