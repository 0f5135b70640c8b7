using BatchKit;

namespace Meadow;

/// <summary>A hundred sheep that walk ten times a second.</summary>
internal sealed class Flock(IOutputBuffer output) : BackgroundService
{
    private const int Sheep = 100;
    private const int Turn = 10;

    private static readonly TimeSpan Step = TimeSpan.FromMilliseconds(100);

    public static OutputHandle Everyone { get; } = OutputHandle.Named("meadow");

    /// <summary>Where something is, as the page reads it. A step of 0 is a player's.</summary>
    public static string At(long who, long step, int x, int y) => $"@{who} {step} {x} {y}";

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        var random = new Random(1);
        var flock = Enumerable.Range(0, Sheep).Select(_ => (X: random.Next(1000), Y: random.Next(600), Heading: random.Next(360))).ToArray();
        using var timer = new PeriodicTimer(Step);
        for (var step = 1L; await timer.WaitForNextTickAsync(stoppingToken); step++)
        {
            using var scope = output.BeginBufferingScope(Everyone);
            for (var number = 0; number < Sheep; number++)
            {
                var (x, y, heading) = flock[number];
                heading += random.Next(-Turn, Turn + 1);
                var (sin, cos) = Math.SinCos(heading * Math.PI / 180);
                flock[number] = (Math.Clamp(x + (int)Math.Round(4 * cos), 0, 999), Math.Clamp(y + (int)Math.Round(4 * sin), 0, 599), x is 0 or 999 || y is 0 or 599 ? heading + Turn : heading);
                output.WriteLatest(Everyone, number, At(number, step, flock[number].X, flock[number].Y));
            }
        }
    }
}
