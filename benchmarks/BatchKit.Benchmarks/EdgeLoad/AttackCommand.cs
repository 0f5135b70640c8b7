using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Linux;

namespace BatchKit.Benchmarks.EdgeLoad;

/// <summary><c>attack</c>: hostile clients of the MUD, in a process of their own. One thread serves them all, so that they take little of the processor from the server.</summary>
internal static class AttackCommand
{
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(5);

    public static int Run()
    {
        var pipe = new ControlPipe();
        Attack? attack = null;
        while (true)
        {
            var command = pipe.Read();
            var verb = ControlPipe.WordAt(command, 0);
            if (verb.SequenceEqual("start"u8))
            {
                attack = Attack.Start(command);
                pipe.Reply(1);
            }
            else if (verb.SequenceEqual("stop"u8) && attack is not null)
            {
                pipe.Reply(attack.Stop());
            }
            else
            {
                return 0;
            }
        }
    }

    private sealed class Attack
    {
        private readonly Attacker[] _attackers;
        private readonly Thread _thread;
        private volatile bool _isStopped;

        private Attack(Attacker[] attackers)
        {
            _attackers = attackers;
            _thread = new Thread(Run);
            _thread.Start();
        }

        /// <param name="command"><c>start port page</c>, then how many there are of each kind.</param>
        public static Attack Start(ReadOnlySpan<byte> command)
        {
            var (telnet, page) = ((int)ControlPipe.NumberAt(command, 1), (int)ControlPipe.NumberAt(command, 2));
            var attackers = new List<Attacker>();
            foreach (var kind in Enum.GetValues<AttackKind>())
            {
                for (var left = ControlPipe.NumberAt(command, 3 + (int)kind); left > 0; left--)
                    attackers.Add(new Attacker(kind, attackers.Count, kind == AttackKind.Ping ? page : telnet));
            }

            return new Attack([.. attackers]);
        }

        /// <returns>For each kind: its connections, the bytes that it sent and those that it read.</returns>
        public long[] Stop()
        {
            _isStopped = true;
            _thread.Join();
            return [.. Enum.GetValues<AttackKind>().SelectMany(kind => Sum(_attackers.Where(attacker => attacker.Kind == kind)))];
        }

        private static long[] Sum(IEnumerable<Attacker> attackers) =>
            [attackers.Sum(attacker => attacker.Connections), attackers.Sum(attacker => attacker.SentBytes), attackers.Sum(attacker => attacker.ReadBytes)];

        // On other machines they would take nothing of the server's processors. On Linux this concerns the thread alone.
        private void Run()
        {
            Libc.GiveWay();
            while (!_isStopped)
            {
                foreach (var attacker in _attackers)
                    attacker.Step();
                Libc.Sleep(Pause);
            }

            foreach (var attacker in _attackers)
                attacker.Dispose();
        }
    }
}
