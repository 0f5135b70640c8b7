using System.Text;
using BatchKit.TestServers.HostWorker;
using Microsoft.Extensions.Hosting;

namespace BatchKit.HostWorker;

/// <summary>Writes all of its numbered lines, in scopes and outside of them by turns, even when the host stops meanwhile. It ends early only when the buffer refuses a line because it has stopped.</summary>
internal sealed class LineWriter(IOutputBuffer output, HostWorkerSettings settings) : BackgroundService
{
    private const int LinesPerTurn = 20;

    private readonly OutputHandle[] _handles =
    [
        .. Enumerable.Range(0, HostWorkerSettings.Connections).Select(index => OutputHandle.Connection(HostWorkerSettings.FarNode, settings.FirstConnection + index)),
        OutputHandle.Named(settings.Group),
    ];

    private readonly int[] _written = new int[HostWorkerSettings.Connections + 1];

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        await Task.Yield();
        try
        {
            for (var turn = 0; turn * LinesPerTurn < settings.Messages; turn++)
            {
                if (turn == settings.AnnouncedMessages / LinesPerTurn)
                    await Console.Out.WriteLineAsync(HostWorkerProcess.Writing);
                await WriteAsync(turn);
            }
        }
        catch (ObjectDisposedException stopped)
        {
            await Console.Out.WriteLineAsync($"{HostWorkerProcess.Refused}: {stopped.Message}");
        }

        for (var index = 0; index < _handles.Length; index++)
            await Console.Out.WriteLineAsync($"written{index} {_written[index]}");
    }

    private async Task WriteAsync(int turn)
    {
        var index = turn / 2 % _handles.Length;
        if (turn % 2 == 0)
        {
            await WriteLinesAsync(index);
            return;
        }

        using (output.BeginBufferingScope(_handles[index]))
            await WriteLinesAsync(index);
    }

    private async Task WriteLinesAsync(int index)
    {
        for (var line = 0; line < LinesPerTurn; line++)
        {
            await output.WriteAsync(_handles[index], Encoding.UTF8.GetBytes($"{_written[index]}"));
            _written[index]++;
        }
    }
}
